/** The nodes around one: what it refers to, level by level, up to a number that a person can look at. */
import type { Client } from '@holdfast/client';
import { groupsOf, type Hash } from '@holdfast/protocol';

/** Drawn at most: more is no picture any more. */
export const GRAPH_NODES_MAX = 150;
/** Drawn of one node's children; the others are counted. */
export const GRAPH_CHILDREN_MAX = 12;
const DEPTH_MAX = 3;
export interface GraphNode {
  readonly hash: Hash;
  /** undefined: it is known by its hash alone, because it is at the edge of the picture, or cannot be read */
  readonly contentType: string | undefined;
  readonly size: number | undefined;
  /** of its distinct children, those that are not drawn */
  readonly moreCount: number;
}

export interface Graph {
  readonly nodes: ReadonlyMap<Hash, GraphNode>;
  /** from the parent to the child */
  readonly edges: readonly (readonly [Hash, Hash])[];
}

type Reader = Pick<Client, 'readMetadata'>;

/** `above`: the chain from what keeps `root` down to its parent, if that is known. */
export async function collectGraph(
  client: Reader,
  root: Hash,
  above: readonly Hash[],
  signal: AbortSignal,
): Promise<Graph> {
  const nodes = new Map<Hash, GraphNode>();
  const edges: (readonly [Hash, Hash])[] = [];
  const chain = [...above, root];
  for (const [index, hash] of chain.entries()) {
    const next = chain[index + 1];
    if (next !== undefined) edges.push([hash, next]);
  }
  for (const hash of above) nodes.set(hash, (await readNode(client, hash, signal)).node);
  let level: readonly Hash[] = [root];
  nodes.set(root, unknown(root));
  for (let depth = 0; depth <= DEPTH_MAX && level.length > 0; depth += 1) {
    const isEdge = depth === DEPTH_MAX;
    const next = new Set<Hash>();
    for (const bunch of groupsOf(level, 24)) {
      for (const { node, refs } of await Promise.all(bunch.map((hash) => readNode(client, hash, signal)))) {
        const distinct = [...new Set(refs)];
        const room = isEdge ? 0 : GRAPH_CHILDREN_MAX;
        const drawn = distinct.filter((child, index) => {
          if (nodes.has(child)) return true;
          return index < room && nodes.size + countNew(next, nodes) < GRAPH_NODES_MAX && add(next, child);
        });
        for (const child of drawn) edges.push([node.hash, child]);
        for (const child of drawn) if (!nodes.has(child)) nodes.set(child, unknown(child));
        nodes.set(node.hash, { ...node, moreCount: distinct.length - drawn.length });
      }
    }
    level = [...next];
  }
  return { nodes, edges };
}

const unknown = (hash: Hash): GraphNode => ({ hash, contentType: undefined, size: undefined, moreCount: 0 });

function add(set: Set<Hash>, hash: Hash): boolean {
  set.add(hash);
  return true;
}

function countNew(next: ReadonlySet<Hash>, nodes: ReadonlyMap<Hash, GraphNode>): number {
  let count = 0;
  for (const hash of next) if (!nodes.has(hash)) count += 1;
  return count;
}

async function readNode(
  client: Reader,
  hash: Hash,
  signal: AbortSignal,
): Promise<{ readonly node: GraphNode; readonly refs: readonly Hash[] }> {
  try {
    const { metadata } = await client.readMetadata(hash, { signal });
    const { contentType, size, refs } = metadata;
    return { node: { hash, contentType, size, moreCount: 0 }, refs };
  } catch {
    signal.throwIfAborted();
    // It is drawn as a node that cannot be read.
    return { node: unknown(hash), refs: [] };
  }
}
