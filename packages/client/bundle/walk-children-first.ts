/** The nodes below some roots, children first: what a bundle holds and what a copy stores. */
import { HASH_TABLE_MAX, type Hash, HashTable } from '@holdfast/protocol';
import type { Client } from '../client.ts';
import { BundleError } from './cid.ts';
import { type LoadedNode, type LoadOptions, loadNode } from './load-node.ts';
import { NodeLoader } from './node-loader.ts';

/** Nodes of one walk: what the set of those that are done can hold. */
const WALKED_NODES_MAX = HASH_TABLE_MAX;

export interface WalkOptions extends LoadOptions {
  /** Bytes of parents that wait for their children; 16 MiB when left out. Further ones are read a second time. */
  readonly memoryBytesMax?: number | undefined;
  /** Those of `hashes`, perhaps also of `upcoming`, that are left out with all below them. The latter are asked about next. */
  readonly skip?:
    | ((hashes: readonly Hash[], upcoming: () => readonly Hash[]) => Promise<readonly Hash[]>)
    | undefined;
}

/** A parent whose children are being walked. The outermost one stands for the list of roots. */
interface Frame {
  readonly parent: Parent | undefined;
  /** children that are parents themselves, the next one last */
  readonly waiting: Parent[];
}

/** `node` is forgotten when too many bytes wait; it is then read again. */
interface Parent {
  readonly hash: Hash;
  node: LoadedNode | undefined;
}

/** Every node from `roots` down, once. For each parent its leaves first, in parallel, then its other children, then itself. */
export async function* walkChildrenFirst(
  client: Client,
  roots: readonly Hash[],
  options: WalkOptions,
): AsyncGenerator<LoadedNode, void, undefined> {
  const memoryBytesMax = options.memoryBytesMax ?? 16 * 1024 * 1024;
  const done = new HashTable();
  let heldBytes = 0;
  const loader = new NodeLoader(client, options);
  const load = (hash: Hash): Promise<LoadedNode> => loadNode(client, hash, options);
  const listUndone = (refs: readonly Hash[]): Hash[] => [...new Set(refs)].filter((ref) => !done.has(ref));
  const hold = (node: LoadedNode): Parent => {
    const size = heldBytesOf(node);
    if (heldBytes + size > memoryBytesMax) return { hash: node.hash, node: undefined };
    heldBytes += size;
    return { hash: node.hash, node };
  };
  const release = ({ node }: Parent): void => {
    if (node !== undefined) heldBytes -= heldBytesOf(node);
  };

  async function* open(
    refs: readonly Hash[],
    waiting: Parent[],
  ): AsyncGenerator<LoadedNode, void, undefined> {
    // The children of the parents that come next; a forgotten parent is read again anyway.
    const upcoming = (): Hash[] =>
      listUndone((stack.at(-2)?.waiting ?? []).toReversed().flatMap(({ node }) => node?.refs ?? []));
    for (const hash of (await options.skip?.(listUndone(refs), upcoming)) ?? []) addDone(done, hash);
    for await (const child of loader.loadAll(listUndone(refs), upcoming)) {
      if (child.refs.length > 0) waiting.push(hold(child));
      else if (addDone(done, child.hash)) yield child;
    }
    waiting.reverse();
  }

  const outermost: Frame = { parent: undefined, waiting: [] };
  const stack: Frame[] = [outermost];
  yield* open(roots, outermost.waiting);
  for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
    const next = frame.waiting.pop();
    if (next === undefined) {
      stack.pop();
      if (frame.parent === undefined) return;
      const { hash, node } = frame.parent;
      release(frame.parent);
      if (addDone(done, hash)) yield node ?? (await load(hash));
    } else if (done.has(next.hash)) release(next);
    else {
      const opened: Frame = { parent: next, waiting: [] };
      stack.push(opened);
      yield* open((next.node ?? (await load(next.hash))).refs, opened.waiting);
    }
  }
}

function heldBytesOf({ bytes }: LoadedNode): number {
  return bytes?.length ?? 0;
}

function addDone(done: HashTable, hash: Hash): boolean {
  if (done.size < WALKED_NODES_MAX) return done.add(hash);
  throw new BundleError(
    `there are more than ${WALKED_NODES_MAX} nodes below these roots; take parts of them one after the other`,
  );
}
