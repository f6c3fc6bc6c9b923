/** The plan of a collection, made by the same code that deletes. */
import { HashText } from '../parts/command.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { formatBytes, formatThings, shellWord } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Notice, Shown } from '../parts/notices.tsx';
import { printable } from '../parts/printable.ts';
import { read } from './operator-api.ts';
import { OperatorCommand } from './operator-command.tsx';
import type { GcPlan, ListedSpace } from './shapes.ts';

const SHOWN_MAX = 100;

export function PlanDialog({
  space: { app, space },
  onClose,
}: {
  readonly space: ListedSpace;
  readonly onClose: () => void;
}) {
  const loaded = useLoaded(`plan ${app} ${space}`, (signal) =>
    read<GcPlan>('gc-plan', { app, space }, signal),
  );
  return (
    <Dialog
      title={`What a collection of ${printable(app)} / ${printable(space)} would take`}
      confirm="Close"
      onClose={onClose}
      onConfirm={async () => undefined}
    >
      <Shown loaded={loaded} what="the plan">
        {({ deleted, reclaimedContentBytes, nodes, damage }) => (
          <>
            {damage === null ? null : (
              <Notice kind="bad">Rows of this Space cannot be read, and are left out: {damage}</Notice>
            )}
            <p>
              {deleted === 0
                ? 'Nothing: everything is kept.'
                : `${formatThings(deleted, 'node')}, ${formatBytes(reclaimedContentBytes)}.`}
            </p>
            <ul class="rows plan">
              {nodes.slice(0, SHOWN_MAX).map(({ hash, contentBytes }) => (
                <li key={hash}>
                  <HashText hash={hash} digits={24} />
                  <span class="number">{formatBytes(contentBytes)}</span>
                </li>
              ))}
            </ul>
            {nodes.length > SHOWN_MAX ? (
              <p class="soft">And {formatThings(nodes.length - SHOWN_MAX, 'more node')}.</p>
            ) : null}
          </>
        )}
      </Shown>
      <OperatorCommand line={`holdfast gc --plan --app ${shellWord(app)} --space ${shellWord(space)}`} />
    </Dialog>
  );
}
