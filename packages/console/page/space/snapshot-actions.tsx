/** Actions on one snapshot: pin, unpin and forget, each with its question and its command. */
import { forgetSnapshots, type Snapshot, setPinned } from '@holdfast/client';
import { useState } from 'preact/hooks';
import { Dialog } from '../parts/dialog.tsx';
import { formatInstant } from '../parts/format.ts';
import type { Connection } from './connection.ts';
import { spaceCommand } from './space-command.tsx';

interface ActionsProps {
  readonly space: Connection;
  readonly snapshot: Snapshot;
  readonly onDone: () => void;
}

export function SnapshotActions(props: ActionsProps) {
  const [asked, setAsked] = useState<'pin' | 'forget' | undefined>(undefined);
  const { name, time, pinned } = props.snapshot;
  const of = `${name} of ${formatInstant(time)}`;
  const close = (): void => setAsked(undefined);
  return (
    <>
      <button type="button" class="small" onClick={() => setAsked('pin')}>
        {pinned ? 'Unpin' : 'Pin'} <span class="unseen">{of}</span>
      </button>
      {pinned ? null : (
        <button type="button" class="small" onClick={() => setAsked('forget')}>
          Forget … <span class="unseen">{of}</span>
        </button>
      )}
      {asked === 'pin' ? <PinDialog {...props} onClose={close} /> : null}
      {asked === 'forget' ? <ForgetDialog {...props} onClose={close} /> : null}
    </>
  );
}

type DialogProps = ActionsProps & { readonly onClose: () => void };

function PinDialog({ space, snapshot: { id, name, pinned }, onDone, onClose }: DialogProps) {
  const verb = pinned ? 'unpin' : 'pin';
  return (
    <Dialog
      title={pinned ? `Unpin this snapshot of ${name}?` : `Pin this snapshot of ${name}?`}
      confirm={pinned ? 'Unpin' : 'Pin'}
      command={spaceCommand(space, `holdfast snapshots ${verb} ${id}`)}
      onClose={onClose}
      onConfirm={async () => {
        await setPinned(space.client, id, pinned !== true);
        onDone();
      }}
    >
      <p>
        {pinned
          ? 'A policy of “forget” may then forget it.'
          : 'It is kept then, whatever a policy of “forget” says, until it is unpinned.'}
      </p>
    </Dialog>
  );
}

function ForgetDialog({ space, snapshot: { id, name, time }, onDone, onClose }: DialogProps) {
  return (
    <Dialog
      title={`Forget the snapshot of ${name} of ${formatInstant(time)}?`}
      confirm="Forget"
      isDangerous
      command={spaceCommand(space, `holdfast forget ${id}`)}
      onClose={onClose}
      onConfirm={async () => {
        await forgetSnapshots(space.client, { idPrefixes: [id] });
        onDone();
      }}
    >
      <p>
        The list no longer names it. The next collection deletes the nodes that no other snapshot holds. Until
        then the command line brings it back:
      </p>
      <p>
        <code>holdfast unforget {id}</code>
      </p>
    </Dialog>
  );
}
