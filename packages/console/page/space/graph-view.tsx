/** The nodes around one as a picture, and each a link to its own. */
import dagre from '@dagrejs/dagre';
import { useMemo } from 'preact/hooks';
import { formatBytes, formatCount } from '../parts/format.ts';
import { Scroll } from '../parts/scroll.tsx';
import { describeType } from './content-type.ts';
import type { Graph, GraphNode } from './graph.ts';
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

export function GraphView({ graph, root }: { readonly graph: Graph; readonly root: string }) {
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
