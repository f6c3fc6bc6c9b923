/** The picture of the nodes around one, and what keeps it: the latter where the operator API tells. */
import dagre from '@dagrejs/dagre';
import { useMemo, useState } from 'preact/hooks';
import { read } from '../operator/operator-api.ts';
import { OperatorCommand } from '../operator/operator-command.tsx';
import { HashText } from '../parts/command.tsx';
import { formatBytes, formatCount, formatInstant, printable, shellWord } from '../parts/format.ts';
import { useAction, useLoaded } from '../parts/loaded.ts';
import { Failure, Shown } from '../parts/notices.tsx';
import { Scroll } from '../parts/scroll.tsx';
import type { Connection } from './connection.ts';
import { describeType } from './content-type.ts';
import { collectGraph, GRAPH_NODES_MAX, type Graph, type GraphNode } from './graph.ts';
import { nodeHref } from './tree-address.ts';

const BOX = { width: 132, height: 40 } as const;
const MORE = { width: 84, height: 22 } as const;
const MARGIN = 8;

interface Placed {
  readonly id: string;
  readonly x: number;
  readonly y: number;
  readonly node: GraphNode | undefined;
  readonly moreCount: number;
}

interface Picture {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly Placed[];
  readonly lines: readonly { readonly id: string; readonly path: string }[];
}

function layOut({ nodes, edges }: Graph): Picture {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'LR', nodesep: 8, ranksep: 36, marginx: MARGIN, marginy: MARGIN });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { hash, moreCount } of nodes.values()) {
    graph.setNode(hash, { ...BOX });
    if (moreCount === 0) continue;
    graph.setNode(`${hash}+`, { ...MORE });
    graph.setEdge(hash, `${hash}+`);
  }
  for (const [from, to] of edges) graph.setEdge(from, to);
  dagre.layout(graph);
  const boxes = graph.nodes().map((id): Placed => {
    const { x, y } = graph.node(id) as { x: number; y: number };
    const node = nodes.get(id);
    return { id, x, y, node, moreCount: nodes.get(id.slice(0, -1))?.moreCount ?? 0 };
  });
  const lines = graph.edges().map(({ v, w }) => {
    const { points } = graph.edge(v, w) as { points: readonly { x: number; y: number }[] };
    return { id: `${v} ${w}`, path: `M${points.map(({ x, y }) => `${round(x)} ${round(y)}`).join('L')}` };
  });
  const { width = 0, height = 0 } = graph.graph();
  return { width: Math.ceil(width), height: Math.ceil(height), boxes, lines };
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** The nodes around one as a picture, and each a link to its own. */
function GraphView({ graph, root }: { readonly graph: Graph; readonly root: string }) {
  const { width, height, boxes, lines } = useMemo(() => layOut(graph), [graph]);
  const here = boxes.find(({ id }) => id === root);
  return (
    <Scroll label="Picture of the nodes around this one" kind="graph" centre={here}>
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
        <title>Nodes and what they refer to</title>
        {lines.map(({ id, path }) => (
          <path key={id} class="edge" d={path} />
        ))}
        {boxes.map((placed) => (
          <Box key={placed.id} placed={placed} isRoot={placed.id === root} />
        ))}
      </svg>
    </Scroll>
  );
}

function Box({ placed, isRoot }: { readonly placed: Placed; readonly isRoot: boolean }) {
  const { id, x, y, node, moreCount } = placed;
  if (node === undefined) {
    return (
      <text class="more" x={x} y={y + 4} text-anchor="middle">
        +{formatCount(moreCount)} more
      </text>
    );
  }
  const kind = node.contentType === undefined ? 'not read' : describeType(node.contentType);
  const size = node.size === undefined ? '' : formatBytes(node.size);
  return (
    <a href={nodeHref(id)} aria-current={isRoot ? 'true' : undefined} class={isRoot ? 'box here' : 'box'}>
      <rect x={x - BOX.width / 2} y={y - BOX.height / 2} width={BOX.width} height={BOX.height} rx={4} />
      <text x={x} y={y - 3} text-anchor="middle">
        {kind.length > 20 ? `${kind.slice(0, 19)}… ` : `${kind} `}
      </text>
      <text class="small" x={x} y={y + 13} text-anchor="middle">
        {id.slice(0, 8)} {size}
      </text>
    </a>
  );
}

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
