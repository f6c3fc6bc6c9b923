/** The usage of a Space, and a collection by the tenant's own token. */
import type { GcResult, SpaceUsage } from '@holdfast/protocol';
import { useState } from 'preact/hooks';
import { Dialog } from '../parts/dialog.tsx';
import { Fact } from '../parts/fact.tsx';
import { formatBytes, formatCount, formatInstant, formatThings } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Notice, Shown } from '../parts/notices.tsx';
import type { Connection } from './connection.ts';
import { spaceCommand } from './space-command.tsx';

type Row = readonly [label: string, value: (usage: SpaceUsage) => string, meaning: string];

const ROWS: readonly Row[] = [
  ['Nodes', ({ nodeCount }) => formatCount(nodeCount), 'all that the Space has, ready or not'],
  ['Content', ({ readyContentBytes }) => formatBytes(readyContentBytes), 'of ready nodes, as it was given'],
  ['Stored', ({ readyStoredBytes }) => formatBytes(readyStoredBytes), 'of ready nodes, with their headers'],
  [
    'Reserved',
    ({ reservedBytes }) => formatBytes(reservedBytes),
    'for what is being uploaded or waits for children',
  ],
  [
    'Not ready',
    ({ notReadyNodeCount }) => formatCount(notReadyNodeCount),
    'wait for children, or are damaged',
  ],
  ['Leased', ({ leasedNodeCount }) => formatCount(leasedNodeCount), 'are kept by a lease for now'],
];

export function UsageView({ space }: { readonly space: Connection }) {
  const loaded = useLoaded('usage', (signal) => space.client.getUsage({ signal }), { everyMs: 10_000 });
  const [isAsking, setAsking] = useState(false);
  const [result, setResult] = useState<GcResult | undefined>(undefined);
  const { claims } = space;
  return (
    <>
      <div class="head">
        <h1>Usage</h1>
        <button type="button" onClick={() => setAsking(true)}>
          Collect now …
        </button>
      </div>
      {result === undefined ? null : (
        <Notice kind="ok">
          <p>
            {formatThings(result.deleted, 'node')} deleted, {formatBytes(result.reclaimedContentBytes)} freed;{' '}
            {formatCount(result.examined)} looked at.
          </p>
        </Notice>
      )}
      <Shown loaded={loaded} what="usage">
        {(usage) => (
          <dl class="facts">
            {ROWS.map(([label, value, meaning]) => (
              <div key={label}>
                <dt>{label}</dt>
                <dd>
                  {value(usage)} <span class="soft">{meaning}</span>
                </dd>
              </div>
            ))}
          </dl>
        )}
      </Shown>
      <section class="panel" aria-label="This token">
        <h2>This token</h2>
        <dl class="facts">
          <Fact label="Address" value={space.url} />
          <Fact label="App" value={space.app} />
          <Fact label="Space" value={space.space} />
          <Fact label="Ref domain" value={claims?.refDomain ?? 'none'} />
          <Fact
            label="Ends"
            value={claims?.expiresAt === undefined ? 'unknown' : formatInstant(claims.expiresAt)}
          />
          <Fact label="Permissions" value={claims?.permissions.join(', ') ?? 'unknown'} />
        </dl>
      </section>
      {isAsking ? (
        <Dialog
          title="Collect what nothing keeps?"
          confirm="Collect"
          command={spaceCommand(space, 'holdfast gc')}
          onClose={() => setAsking(false)}
          onConfirm={async () => {
            setResult(await space.client.runGc({ maxNodes: 10_000 }));
            loaded.reload();
          }}
        >
          <p>
            Nodes that no lease, no root ref and no parent keeps are deleted, at most 10,000 in this pass.
            What a snapshot holds is kept.
          </p>
        </Dialog>
      ) : null}
    </>
  );
}
