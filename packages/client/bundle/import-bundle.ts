/** Putting the nodes of a CAR version 1 into a Space: verified first, children before parents, ready ones not again. */
import { type Hash, LEASE_DURATION_MS_MAX } from '@holdfast/protocol';
import type { Client } from '../client.ts';
import { findReady } from '../find-ready.ts';
import type { CallOptions } from '../operations.ts';
import { BundleError } from './bundle-error.ts';
import { CID_BYTES } from './cid.ts';
import { type BundleNode, type BundleReader, type ReadBundleOptions, readBundle } from './read-bundle.ts';
import { encodeVarint } from './varint.ts';

/** Nodes that are being stored at once. */
const STORING_NODES_MAX = 32;
const MEMORY_BYTES_MAX_DEFAULT = 16 * 1024 * 1024;

export interface ImportBundleOptions extends CallOptions, ReadBundleOptions {
  /** Lease every node, also below a root that is ready: a node whose bytes were lost is then stored again. */
  readonly check?: boolean | undefined;
  /** Bytes of nodes on their way at once; 16 MiB when left out. One larger node goes alone. */
  readonly memoryBytesMax?: number | undefined;
  /** Called after each node with the totals so far. */
  readonly onNode?: ((progress: ImportProgress) => void) | undefined;
}

export interface ImportProgress {
  /** nodes of the bundle that are done */
  readonly nodes: number;
  /** of these, how many the Space did not have */
  readonly uploadedNodes: number;
  /** canonical bytes of the nodes that are done */
  readonly nodeBytes: number;
  /** of these, those of the nodes that the Space did not have */
  readonly uploadedBytes: number;
  /** bytes of the file that are done: its header, and the blocks of these nodes */
  readonly bytes: number;
}

export interface ImportedRoot {
  readonly hash: Hash;
  /** the root, and with it everything below, is safe from collection until then */
  readonly leaseExpiresAt: number;
}

export interface ImportBundleResult extends ImportProgress {
  readonly roots: readonly ImportedRoot[];
}

/**
 * Reads the whole bundle and stores what the Space lacks. An import that was interrupted is taken up by running it again:
 * nodes that are ready take one request and no upload, and when all roots are ready the file is only verified. All nodes are
 * leased for 24 h, so that the parts of an unfinished import stay. Throws BundleError, CasError.
 */
export async function importBundle(
  client: Client,
  stream: ReadableStream<Uint8Array>,
  options: ImportBundleOptions = {},
): Promise<ImportBundleResult> {
  const bundle = await readBundle(stream, options);
  try {
    const isAllReady = await areReady(client, bundle.roots, options);
    const storing = new Storing(client, bundle, options, isAllReady && options.check !== true);
    try {
      for await (const node of bundle.nodes) await storing.begin(node);
    } catch (error) {
      // What is on its way arrives: the next try then need not send it again.
      await storing.end().catch(() => undefined);
      throw error;
    }
    const progress = await storing.end();
    const roots: ImportedRoot[] = [];
    for (const root of bundle.roots) {
      roots.push({ hash: root, leaseExpiresAt: await settle(client, root, storing, options) });
    }
    return { roots, ...progress };
  } finally {
    await bundle.nodes.return();
  }
}

/** Whether the Space has all of them ready; they are then leased too. */
async function areReady(client: Client, hashes: readonly Hash[], options: CallOptions): Promise<boolean> {
  for (const hash of hashes) {
    // Ask without a lease first: a lease of a missing root would open an upload, and the root comes last in the file.
    if ((await findReady(client, hash, options)) === undefined) return false;
    if ((await lease(client, hash, options)).state !== 'ready') return false;
  }
  return true;
}

function lease(client: Client, hash: Hash, { signal }: CallOptions): ReturnType<Client['leaseNode']> {
  return client.leaseNode(hash, { leaseDurationMs: LEASE_DURATION_MS_MAX }, { signal });
}

/** The nodes on their way into the Space. A parent starts when its children that are on their way have arrived. */
class Storing {
  /** roots that were in the file */
  readonly roots = new Set<Hash>();
  readonly #client: Client;
  readonly #options: ImportBundleOptions;
  readonly #isVerifyingOnly: boolean;
  readonly #wanted: ReadonlySet<Hash>;
  readonly #running = new Map<Hash, Promise<void>>();
  #runningBytes = 0;
  readonly #done: { -readonly [Count in keyof ImportProgress]: number };
  #failure: { readonly error: unknown } | undefined;

  constructor(client: Client, bundle: BundleReader, options: ImportBundleOptions, isVerifyingOnly: boolean) {
    this.#client = client;
    this.#options = options;
    this.#isVerifyingOnly = isVerifyingOnly;
    this.#wanted = new Set(bundle.roots);
    // Nothing but the header has been read.
    this.#done = { nodes: 0, uploadedNodes: 0, nodeBytes: 0, uploadedBytes: 0, bytes: bundle.position() };
  }

  /** Waits for room, starts to store `node` and returns. Throws what an earlier node failed with. */
  async begin(node: BundleNode): Promise<void> {
    this.#options.signal?.throwIfAborted();
    if (this.#wanted.has(node.hash)) this.roots.add(node.hash);
    if (this.#isVerifyingOnly) return this.#count(node, false);
    const size = node.bytes.length;
    while (this.#running.size > 0 && !this.#hasRoom(node.hash, size)) {
      await Promise.race(this.#running.values());
    }
    if (this.#failure !== undefined) throw this.#failure.error;
    this.#runningBytes += size;
    const children = node.refs.flatMap((ref) => this.#running.get(ref) ?? []);
    const work = this.#store(node, children)
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        this.#running.delete(node.hash);
        this.#runningBytes -= size;
      });
    this.#running.set(node.hash, work);
  }

  /** Waits for all. Throws what one failed with. */
  async end(): Promise<ImportProgress> {
    await Promise.all(this.#running.values());
    if (this.#failure !== undefined) throw this.#failure.error;
    return { ...this.#done };
  }

  #hasRoom(hash: Hash, size: number): boolean {
    if (this.#failure !== undefined) return true;
    // The same node twice in a row: the second waits for the first.
    if (this.#running.has(hash) || this.#running.size >= STORING_NODES_MAX) return false;
    return this.#runningBytes + size <= (this.#options.memoryBytesMax ?? MEMORY_BYTES_MAX_DEFAULT);
  }

  async #store(node: BundleNode, children: readonly Promise<void>[]): Promise<void> {
    await Promise.all(children);
    if (this.#failure !== undefined) return;
    const { contentType, refs, content } = node;
    const { uploaded } = await this.#client.putNode(
      { contentType, refs, content },
      { leaseDurationMs: LEASE_DURATION_MS_MAX, signal: this.#options.signal },
    );
    this.#count(node, uploaded);
  }

  #count({ bytes }: BundleNode, uploaded: boolean): void {
    this.#done.nodes += 1;
    this.#done.nodeBytes += bytes.length;
    this.#done.bytes += blockBytesOf(bytes.length);
    if (uploaded) {
      this.#done.uploadedNodes += 1;
      this.#done.uploadedBytes += bytes.length;
    }
    this.#options.onNode?.({ ...this.#done });
  }
}

/** What a node of so many canonical bytes takes in the file. */
function blockBytesOf(nodeBytes: number): number {
  const length = CID_BYTES + nodeBytes;
  return encodeVarint(length).length + length;
}

/**
 * Leases `root`, and first whatever below it waits for children: a bundle may hold parents before their children. Returns
 * when its lease expires. Throws BundleError for a node that is neither in the bundle nor in the Space.
 */
async function settle(client: Client, root: Hash, storing: Storing, options: CallOptions): Promise<number> {
  if (!storing.roots.has(root) && (await findReady(client, root, options)) === undefined) {
    throw new BundleError(
      `the bundle does not hold its root ${root}, nor does the Space; it is cut off or made wrongly: make it again`,
    );
  }
  const stack: Hash[] = [root];
  for (let hash = stack.at(-1); hash !== undefined; hash = stack.at(-1)) {
    const answer = await lease(client, hash, options);
    switch (answer.state) {
      case 'ready':
        stack.pop();
        if (hash === root) return answer.leaseExpiresAt;
        break;
      case 'validated_awaiting_children':
        stack.push(...answer.childHashes.toReversed());
        break;
      default:
        throw new BundleError(
          `the bundle lacks node ${hash}, which is below its root ${root}, and so does the Space; make it again`,
        );
    }
  }
  throw new TypeError('the root is the last to leave the stack');
}
