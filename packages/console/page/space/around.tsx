/** The picture of the nodes around one, and what keeps it: the latter where the operator API tells. */
import { read } from '../operator/operator-api.ts';
import { CommandLine, HashText } from '../parts/command.tsx';
import { OperatorError } from '../parts/describe-error.ts';
import { formatInstant, shellWord } from '../parts/format.ts';
import { useLoaded } from '../parts/loaded.ts';
import { Shown } from '../parts/notices.tsx';
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
  readonly collectableAt: number | null;
  readonly chain?: readonly string[];
}

/** undefined: this page may not ask, or the server does not know of the Space; the node is shown all the same. */
async function explain(space: Connection, hash: string, signal: AbortSignal): Promise<Explained | undefined> {
  try {
    return await read<Explained>('explain', { app: space.app, space: space.space, hash }, signal);
  } catch (error) {
    if (error instanceof OperatorError) return undefined;
    throw error;
  }
}

export function Around({ space, hash }: { readonly space: Connection; readonly hash: string }) {
  const loaded = useLoaded(`around ${hash}`, async (signal) => {
    const explained = await explain(space, hash, signal);
    const chain = explained?.chain ?? [];
    const above = chain.includes(hash) ? chain.slice(0, chain.indexOf(hash)) : chain;
    return { explained, graph: await collectGraph(space.client, hash, above, signal) };
  });
  return (
    <section class="panel" aria-label="Around this node">
      <h2>Around this node</h2>
      <Shown loaded={loaded} what="the nodes around it">
        {({ explained, graph }) => (
          <>
            {explained === undefined ? null : <Kept space={space} hash={hash} explained={explained} />}
            {graph.nodes.size === 1 ? (
              <p class="soft">It refers to no other node.</p>
            ) : (
              <>
                <GraphView graph={graph} root={hash} />
                <p class="soft">
                  Parents stand left of their children. At most {GRAPH_NODES_MAX} nodes are drawn, four levels
                  down.
                </p>
              </>
            )}
          </>
        )}
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
    collectableAt === null || collectableAt === undefined
      ? 'It stays for as long as that is so.'
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
      <CommandLine
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
