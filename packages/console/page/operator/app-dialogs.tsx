/** Actions of an operator on an App, each with its question and its command. */

import { parseSize as parseExact } from '@holdfast/protocol';
import { useState } from 'preact/hooks';
import { Dialog } from '../parts/dialog.tsx';
import { printable, shellWord } from '../parts/format.ts';
import { change } from './operator-api.ts';
import { useOperatorCommand } from './operator-command.tsx';
import type { App } from './shapes.ts';

export type AppAct = 'suspend' | 'resume' | 'quotas' | 'revoke';

interface AppDialogProps {
  readonly app: App;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function AppDialog({ act, ...props }: AppDialogProps & { readonly act: AppAct }) {
  switch (act) {
    case 'suspend':
      return <StatusDialog {...props} verb="suspend" />;
    case 'resume':
      return <StatusDialog {...props} verb="resume" />;
    case 'quotas':
      return <QuotaDialog {...props} />;
    case 'revoke':
      return <RevokeDialog {...props} />;
  }
}

function StatusDialog({
  app,
  verb,
  onClose,
  onDone,
}: AppDialogProps & { readonly verb: 'suspend' | 'resume' }) {
  const name = printable(app.appId);
  const isSuspend = verb === 'suspend';
  return (
    <Dialog
      title={isSuspend ? `Suspend ${name}?` : `Resume ${name}?`}
      confirm={isSuspend ? 'Suspend' : 'Resume'}
      isDangerous={isSuspend}
      command={useOperatorCommand(`holdfast app ${verb} ${shellWord(app.appId)}`)}
      onClose={onClose}
      onConfirm={async () => {
        await change(`apps/${verb}`, { app: app.appId });
        onDone();
      }}
    >
      <p>
        {isSuspend
          ? 'Within seconds every process refuses the tokens of this App. Its data stays.'
          : 'Within seconds tokens of this App are accepted again.'}
      </p>
    </Dialog>
  );
}

function QuotaDialog({ app, onClose, onDone }: AppDialogProps) {
  const [bytes, setBytes] = useState(formatSize(app.quotas?.maxBytes));
  const [nodes, setNodes] = useState(String(app.quotas?.maxNodes ?? ''));
  const maxBytes = parseSize(bytes);
  const maxNodes = nodes === '' ? null : /^\d{1,15}$/.test(nodes) ? Number(nodes) : undefined;
  const isGood = maxBytes !== undefined && maxNodes !== undefined;
  const command = useOperatorCommand(
    `holdfast app set ${shellWord(app.appId)} --max-bytes ${bytes === '' ? 'none' : bytes} --max-nodes ${nodes === '' ? 'none' : nodes}`,
  );
  return (
    <Dialog
      title={`Quotas of ${printable(app.appId)}`}
      confirm="Set quotas"
      command={isGood ? command : undefined}
      onClose={onClose}
      onConfirm={
        isGood
          ? async () => {
              await change('apps/set', { app: app.appId, maxBytes, maxNodes });
              onDone();
            }
          : undefined
      }
    >
      <p class="soft">
        Left empty: no limit. Over it, what would add to the App is refused; reads and renewals go on.
      </p>
      <label>
        Bytes
        <input
          value={bytes}
          placeholder="10GiB"
          aria-invalid={maxBytes === undefined}
          onInput={({ currentTarget }) => setBytes(currentTarget.value.trim())}
        />
      </label>
      <label>
        Nodes
        <input
          value={nodes}
          inputmode="numeric"
          placeholder="1000000"
          aria-invalid={maxNodes === undefined}
          onInput={({ currentTarget }) => setNodes(currentTarget.value.trim())}
        />
      </label>
    </Dialog>
  );
}

function RevokeDialog({ app, onClose, onDone }: AppDialogProps) {
  const [kind, setKind] = useState<'jti' | 'sub'>('jti');
  const [value, setValue] = useState('');
  const [isLift, setLift] = useState(false);
  const command = useOperatorCommand(
    `holdfast app revoke ${shellWord(app.appId)} --${kind} ${shellWord(value)}${isLift ? ' --lift' : ''}`,
  );
  return (
    <Dialog
      title={`Revoke tokens of ${printable(app.appId)}`}
      confirm={isLift ? 'Lift the revocation' : 'Revoke'}
      isDangerous={!isLift}
      command={value === '' ? undefined : command}
      onClose={onClose}
      onConfirm={
        value === ''
          ? undefined
          : async () => {
              await change('apps/revoke', {
                app: app.appId,
                [kind]: value,
                ...(isLift ? { lift: true } : {}),
              });
              onDone();
            }
      }
    >
      <p class="soft">
        Every process refuses it within 5 seconds, until the longest life of a token has passed.
      </p>
      <label>
        What is refused
        <select value={kind} onChange={({ currentTarget }) => setKind(currentTarget.value as 'jti' | 'sub')}>
          <option value="jti">One token, by its jti</option>
          <option value="sub">All tokens of a subject, new ones too, by its sub</option>
        </select>
      </label>
      <label>
        {kind}
        <input
          required
          spellcheck={false}
          value={value}
          onInput={({ currentTarget }) => setValue(currentTarget.value)}
        />
      </label>
      <label>
        <input
          type="checkbox"
          checked={isLift}
          onChange={({ currentTarget }) => setLift(currentTarget.checked)}
        />{' '}
        Lift an earlier revocation instead
      </label>
    </Dialog>
  );
}

const UNITS = [
  ['TiB', 1024 ** 4],
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024],
] as const;

/** null means unlimited; undefined means invalid */
function parseSize(text: string): number | null | undefined {
  if (text === '') return null;
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}

/** The exact size in the largest unit that divides it. */
function formatSize(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return '';
  const [unit, unitBytes] = UNITS.find(([, each]) => bytes >= each && bytes % each === 0) ?? ['', 1];
  return `${bytes / unitBytes}${unit}`;
}
