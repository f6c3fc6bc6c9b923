/** Writing nodes and all below them as a CAR version 1: children first, each node once, each verified before it counts. */

import { concatBytes, encodeNodeHeader, HASH_TABLE_MAX, type Hash, HashTable } from '@holdfast/protocol';
import { checkHashes, checkMethod, checkOptions } from '../arguments.ts';
import type { Client } from '../client.ts';
import type { CallOptions } from '../operations.ts';
import { BundleError } from './bundle-error.ts';
import { encodeCarHeader } from './car-header.ts';
import { CID_BYTES, encodeCid } from './cid.ts';
import { type CanonicalParts, type LoadedNode, type LoadOptions, loadNode, withHash } from './load-node.ts';
import { NodeLoader } from './node-loader.ts';
import { encodeVarint } from './varint.ts';

/** Nodes of one bundle: what the set of written ones can hold. */
const BUNDLE_NODES_MAX = HASH_TABLE_MAX;
/** Content up to this is written in one chunk with its header. */
const JOINED_CONTENT_BYTES_MAX = 64 * 1024;
const MEMORY_BYTES_MAX_DEFAULT = 16 * 1024 * 1024;

export interface CreateBundleOptions extends LoadOptions {
  /** Bytes of parents that wait for their children; 16 MiB when left out. Further ones are read a second time. */
  readonly memoryBytesMax?: number | undefined;
  /** Called after each node with the totals so far. */
  readonly onNode?: ((written: { readonly nodes: number; readonly bytes: number }) => void) | undefined;
}

/**
 * The bundle of `roots` as a stream; nothing is read further than it is consumed. The same nodes give the same bytes. The
 * stream errors with BundleError or CasError, and what came before is then no whole bundle: its roots come last. Memory:
 * about 48 MiB, and 16 to 43 bytes for each node (at most about 128 MiB, at BUNDLE_NODES_MAX).
 */
export function createBundle(
  client: Client,
  roots: readonly Hash[],
  options: CreateBundleOptions = {},
): ReadableStream<Uint8Array> {
  const call = { name: 'createBundle', requestOperation: 'readNodes' } as const;
  checkMethod(call, 'client', client, 'readContent');
  checkHashes(call, 'roots', roots);
  checkOptions(call, options);
  const chunks = writeBundle(client, [...new Set(roots)], options);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next();
        if (done === true) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await chunks.return();
      },
    },
    { highWaterMark: 0 },
  );
}

async function* writeBundle(
  client: Client,
  roots: readonly Hash[],
  options: CreateBundleOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const header = encodeCarHeader(roots);
  // Before the first byte: a root that is not there should leave nothing behind that looks like a bundle.
  for (const root of roots) {
    await client.readMetadata(root, options).catch((error: unknown) => {
      throw withHash(root, error);
    });
  }
  yield header;
  let bytes = header.length;
  let nodes = 0;
  for await (const node of walkChildrenFirst(client, roots, options)) {
    const length = CID_BYTES + node.canonicalSize;
    const prefix = concatBytes([encodeVarint(length), encodeCid(node.hash)]);
    if (node.parts === undefined) {
      yield prefix;
      yield* readLargeNode(client, node.hash, options);
    } else yield* joinSmall(prefix, node.parts);
    nodes += 1;
    bytes += prefix.length + node.canonicalSize;
    options.onNode?.({ nodes, bytes });
  }
}

/** A block as one chunk, or its content by itself where copying would cost more than another chunk. */
function joinSmall(prefix: Uint8Array, { header, content }: CanonicalParts): Uint8Array[] {
  if (content.length <= JOINED_CONTENT_BYTES_MAX) return [concatBytes([prefix, header, content])];
  return [concatBytes([prefix, header]), content];
}

/** The canonical bytes of a node that is not held. Verified when the last chunk comes. */
async function* readLargeNode(
  client: Client,
  hash: Hash,
  options: CallOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { metadata, body } = await client.openNode(hash, options);
  yield encodeNodeHeader(metadata);
  const reader = body.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** A parent whose children are being written. The outermost one stands for the list of roots. */
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

/**
 * Every node below and including `roots`, once. For each parent first its leaves in the order of the refs, read in
 * parallel, then its other children with all below them, then itself.
 */
async function* walkChildrenFirst(
  client: Client,
  roots: readonly Hash[],
  options: CreateBundleOptions,
): AsyncGenerator<LoadedNode, void, undefined> {
  const memoryBytesMax = options.memoryBytesMax ?? MEMORY_BYTES_MAX_DEFAULT;
  const written = new HashTable();
  let heldBytes = 0;
  const loader = new NodeLoader(client, options);
  const load = (hash: Hash): Promise<LoadedNode> => loadNode(client, hash, options);
  const listUnwritten = (refs: readonly Hash[]): Hash[] =>
    [...new Set(refs)].filter((ref) => !written.has(ref));
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
    const unwritten = listUnwritten(refs);
    // Of the parents that come next; those that were forgotten are read again anyway.
    const upcoming = (): Hash[] =>
      listUnwritten((stack.at(-2)?.waiting ?? []).toReversed().flatMap(({ node }) => node?.refs ?? []));
    for await (const child of loader.loadAll(unwritten, upcoming)) {
      if (child.refs.length > 0) waiting.push(hold(child));
      else if (addWritten(written, child.hash)) yield child;
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
      if (addWritten(written, hash)) yield node ?? (await load(hash));
    } else if (written.has(next.hash)) release(next);
    else {
      const opened: Frame = { parent: next, waiting: [] };
      stack.push(opened);
      yield* open((next.node ?? (await load(next.hash))).refs, opened.waiting);
    }
  }
}

function heldBytesOf({ parts, canonicalSize }: LoadedNode): number {
  return parts === undefined ? 0 : canonicalSize;
}

function addWritten(written: HashTable, hash: Hash): boolean {
  if (written.size < BUNDLE_NODES_MAX) return written.add(hash);
  throw new BundleError(
    `there are more than ${BUNDLE_NODES_MAX} nodes below these roots; make several bundles of parts of them`,
  );
}
