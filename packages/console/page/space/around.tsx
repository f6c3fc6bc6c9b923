/** The picture of the nodes around one, and what keeps it: the latter where the operator API tells. */
import { useState } from 'preact/hooks';
import { read } from '../operator/operator-api.ts';
import { OperatorCommand } from '../operator/operator-command.tsx';
import { HashText } from '../parts/command.tsx';
import { formatInstant, shellWord } from '../parts/format.ts';
import { useAction, useLoaded } from '../parts/loaded.ts';
import { Failure, Shown } from '../parts/notices.tsx';
import { printable } from '../parts/printable.ts';
import type { Connection } from './connection.ts';
import { collectGraph, GRAPH_NODES_MAX } from './graph.ts';
import { GraphView } from './graph-view.tsx';
import { nodeHref } from './tree-address.ts';

interface Keeper {
  readonly kind: 'lease' | 'root-ref' | 'parent';
  readonly until?: number;
  readonly refDomain?: string;
  readonly balance?: number;
  readonly hash?: string;
}

interface Explained {
  readonly state: string;
  readonly keptBy: readonly Keeper[];
  /** null: a root ref keeps it */
  readonly collectableAt: number | null;
  /** from the node to what keeps it */
  readonly chain: readonly { readonly hash: string }[];
}

/** To explain a node the server walks over all of its Space, so it is asked only when somebody wants to know. */
export function Around({ space, hash }: { readonly space: Connection; readonly hash: string }) {
  const [explained, setExplained] = useState<Explained | undefined>(undefined);
  const asking = useAction();
  const above =
    explained?.chain
      .map((each) => each.hash)
      .filter((each) => each !== hash)
      .toReversed() ?? [];
  const loaded = useLoaded(`around ${hash} ${above.join()}`, (signal) =>
    collectGraph(space.client, hash, above, signal),
  );
  const ask = async (): Promise<void> => {
    const query = { app: space.app, space: space.space, hash };
    setExplained(await read<Explained>('explain', query, AbortSignal.timeout(60_000)));
  };
  return (
    <section class="panel" aria-label="Around this node">
      <div class="head">
        <h2>Around this node</h2>
        {explained === undefined ? (
          <button type="button" disabled={asking.isRunning} onClick={() => void asking.run(ask)}>
            {asking.isRunning ? 'Asking …' : 'What keeps it?'}
          </button>
        ) : null}
      </div>
      <Failure error={asking.error} />
      {explained === undefined ? null : <Kept space={space} hash={hash} explained={explained} />}
      <Shown loaded={loaded} what="the nodes around it">
        {(graph) =>
          graph.nodes.size === 1 ? (
            <p class="soft">It refers to no other node.</p>
          ) : (
            <>
              <GraphView graph={graph} root={hash} />
              <p class="soft">
                Parents stand left of their children. At most {GRAPH_NODES_MAX} nodes are drawn, four levels
                down.
              </p>
            </>
          )
        }
      </Shown>
    </section>
  );
}

function Kept({
  space,
  hash,
  explained: { keptBy, collectableAt },
}: {
  readonly space: Connection;
  readonly hash: string;
  readonly explained: Explained;
}) {
  const when =
    collectableAt === null
      ? 'It stays for as long as a root ref does.'
      : `A collection may take it from ${formatInstant(collectableAt)} on.`;
  return (
    <>
      {keptBy.length === 0 ? (
        <p>
          <strong>Nothing keeps it.</strong> {when}
        </p>
      ) : (
        <>
          <p>
            <strong>What keeps it.</strong> {when}
          </p>
          <ul class="rows">
            {keptBy.map((keeper, index) => (
              <li key={index}>
                <KeeperText keeper={keeper} />
              </li>
            ))}
          </ul>
        </>
      )}
      <OperatorCommand
        line={`holdfast explain ${hash} --app ${shellWord(space.app)} --space ${shellWord(space.space)}`}
      />
    </>
  );
}

function KeeperText({ keeper }: { readonly keeper: Keeper }) {
  switch (keeper.kind) {
    case 'lease':
      return <span>a lease until {formatInstant(keeper.until ?? Number.NaN)}</span>;
    case 'root-ref':
      return (
        <span>
          a root ref of the domain <bdi>{printable(keeper.refDomain ?? '')}</bdi>, balance {keeper.balance}
        </span>
      );
    default:
      return (
        <span>
          a parent <HashText hash={keeper.hash ?? ''} href={nodeHref(keeper.hash ?? '')} />
        </span>
      );
  }
}
