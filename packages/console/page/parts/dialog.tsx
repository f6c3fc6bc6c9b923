/** A question before something that changes the deployment: what it does, its command, yes or no. */
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { CommandLine } from './command.tsx';
import { type Action, useAction } from './loaded.ts';
import { Failure } from './notices.tsx';

interface DialogProps {
  readonly title: string;
  readonly confirm: string;
  /** what it does; undefined while it cannot be confirmed */
  readonly onConfirm: (() => Promise<void>) | undefined;
  readonly onClose: () => void;
  readonly isDangerous?: boolean;
  /** the same for the command line */
  readonly command?: string | undefined;
  readonly children: ComponentChildren;
}

export function Dialog(props: DialogProps) {
  const { title, command, onClose, onConfirm, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const action = useAction();
  useEffect(() => dialog.current?.showModal(), []);
  const confirm = async (): Promise<void> => {
    if (onConfirm !== undefined && (await action.run(onConfirm))) onClose();
  };
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={onClose}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          void confirm();
        }}
      >
        <h2 id="dialog-title">{title}</h2>
        {children}
        {command === undefined ? null : (
          <div class="dialog-command">
            <p class="soft">On the command line:</p>
            <CommandLine line={command} />
          </div>
        )}
        <Failure error={action.error} />
        <Buttons {...props} action={action} />
      </form>
    </dialog>
  );
}

function Buttons({
  confirm,
  onConfirm,
  onClose,
  isDangerous,
  action,
}: DialogProps & { readonly action: Action }) {
  return (
    <div class="buttons">
      <button
        type="submit"
        class={isDangerous === true ? 'danger' : 'primary'}
        disabled={onConfirm === undefined || action.isRunning}
      >
        {action.isRunning ? 'Working …' : confirm}
      </button>
      <button type="button" onClick={onClose}>
        Cancel
      </button>
    </div>
  );
}
