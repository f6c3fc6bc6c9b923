/** The nodes of a bundle on their way into the Space, many at once. */
import { type Hash, LEASE_DURATION_MS_MAX, MIB_BYTES, type Rejection } from '@holdfast/protocol';
import { Delivery } from '../bulk/delivery.ts';
import { PACKED_NODE_BYTES_MAX } from '../bulk/packs.ts';
import type { Client } from '../client.ts';
import { systemClock } from '../deadline.ts';
import { CasError } from '../errors.ts';
import type { CallOptions } from '../operations.ts';
import { CID_BYTES } from './cid.ts';
import type { BundleNode, BundleReader, ReadBundleOptions } from './read-bundle.ts';
import { encodeVarint } from './varint.ts';

export interface ImportBundleOptions extends CallOptions, ReadBundleOptions {
  /** Lease every node, also below a root that is ready: a node whose bytes were lost is then stored again. */
  readonly check?: boolean | undefined;
  /** Bytes of nodes on their way at once; 12 MiB when left out, 32 MiB of small ones that travel in packs. One larger node goes alone. */
  readonly memoryBytesMax?: number | undefined;
  /** Called after each node with the totals so far. */
  readonly onNode?: ((progress: ImportProgress) => void) | undefined;
}

interface StoringOptions extends ImportBundleOptions {
  /** Takes the canonical bytes of a node that nobody looks at any more. */
  readonly release?: ((bytes: Uint8Array) => void) | undefined;
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

/** A parent is settled when its children that are on their way have arrived. */
export class Storing {
  /** roots that were in the file */
  readonly roots = new Set<Hash>();
  readonly #client: Client;
  readonly #options: StoringOptions;
  readonly #isVerifyingOnly: boolean;
  readonly #wanted: ReadonlySet<Hash>;
  readonly #delivery: Delivery;
  readonly #running = new Map<Hash, Promise<void>>();
  #runningBytes = 0;
  /** The file is not read on until something has arrived. */
  #isWaiting = false;
  readonly #done: { -readonly [Count in keyof ImportProgress]: number };
  #onArrival: (() => void) | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(
    client: Client,
    bundle: Pick<BundleReader, 'roots' | 'position'>,
    options: StoringOptions,
    isVerifyingOnly: boolean,
  ) {
    this.#client = client;
    this.#options = options;
    this.#isVerifyingOnly = isVerifyingOnly;
    this.#wanted = new Set(bundle.roots);
    this.#delivery = new Delivery({
      bulk: client.bulk,
      // The client of an import has the patience itself.
      send: (_what, request) => request(),
      signal: options.signal,
      clock: systemClock,
      leaseDurationMs: LEASE_DURATION_MS_MAX,
      isMoreComing: () => !this.#isWaiting,
    });
    // Nothing but the header has been read.
    this.#done = { nodes: 0, uploadedNodes: 0, nodeBytes: 0, uploadedBytes: 0, bytes: bundle.position() };
  }

  /** Waits for room, starts to store `node` and returns. Throws what an earlier node failed with. */
  async begin(node: BundleNode): Promise<void> {
    this.#options.signal?.throwIfAborted();
    if (this.#wanted.has(node.hash)) this.roots.add(node.hash);
    if (this.#isVerifyingOnly) return this.#count(node, false);
    const size = node.bytes.length;
    while (this.#running.size > 0 && !this.#hasRoom(node.hash, size))
      await this.#waitFor(() => this.#anyArrival());
    if (this.#failure !== undefined) throw this.#failure.error;
    this.#runningBytes += size;
    const children = node.refs.flatMap((ref) => this.#running.get(ref) ?? []);
    const work = this.#storeNode(node, children)
      .catch((error: unknown) => {
        this.#failure ??= { error };
      })
      .finally(() => {
        this.#running.delete(node.hash);
        this.#runningBytes -= size;
        this.#options.release?.(node.bytes);
        this.#onArrival?.();
      });
    this.#running.set(node.hash, work);
  }

  /** Waits for all. Throws what one failed with. */
  async end(): Promise<ImportProgress> {
    await this.#waitFor(() => Promise.all(this.#running.values()));
    if (this.#failure !== undefined) throw this.#failure.error;
    return { ...this.#done };
  }

  #hasRoom(hash: Hash, size: number): boolean {
    if (this.#failure !== undefined) return true;
    // The same node twice in a row: the second waits for the first.
    const isInBulk = this.#client.bulk.isOffered;
    // Nodes that are being stored at once, in packs or each by itself.
    const nodesMax = isInBulk ? 8192 : 32;
    if (this.#running.has(hash) || this.#running.size >= nodesMax) return false;
    // More bytes of small nodes may be on their way, so that one pack is filled while another is sent. Larger ones leave more garbage.
    const bytesMax = (isInBulk && size <= 512 * 1024 ? 32 : 12) * MIB_BYTES;
    return this.#runningBytes + size <= (this.#options.memoryBytesMax ?? bytesMax);
  }

  async #waitFor(work: () => Promise<unknown>): Promise<void> {
    this.#isWaiting = true;
    this.#delivery.sendSoon();
    try {
      await work();
    } finally {
      this.#isWaiting = false;
    }
  }

  #anyArrival(): Promise<void> {
    return new Promise((resolve) => {
      this.#onArrival = resolve;
    });
  }

  async #storeNode(node: BundleNode, children: readonly Promise<void>[]): Promise<void> {
    const isUploaded = await this.#findStored(node, children);
    if (isUploaded !== undefined) return this.#count(node, isUploaded);
    await Promise.all(children);
    if (this.#failure !== undefined) return;
    const { contentType, refs, content } = node;
    const { uploaded } = await this.#client.putNode(
      { contentType, refs, content },
      { leaseDurationMs: LEASE_DURATION_MS_MAX, signal: this.#options.signal },
    );
    this.#count(node, uploaded);
  }

  /** Whether bytes of ours were accepted; undefined when the node has to go by itself. */
  async #findStored(
    { hash, bytes }: BundleNode,
    children: readonly Promise<void>[],
  ): Promise<boolean | undefined> {
    if (bytes.length > PACKED_NODE_BYTES_MAX) return undefined;
    const outcome = await this.#delivery.deliver({ hash, make: async () => bytes });
    if (outcome.kind === 'rejected') throw rejected(hash, outcome.rejection);
    if (outcome.kind === 'alone') return undefined;
    if (outcome.lease.state === 'validated_awaiting_children' && children.length > 0) {
      await Promise.all(children);
      await this.#delivery.lease(hash, LEASE_DURATION_MS_MAX);
    }
    return outcome.uploadedBytes !== undefined;
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

function blockBytesOf(nodeBytes: number): number {
  const length = CID_BYTES + nodeBytes;
  return encodeVarint(length).length + length;
}

function rejected(hash: Hash, { code, message }: Rejection): CasError {
  return new CasError(`leasePack: the server rejected ${hash}: ${message}`, {
    code,
    requestOperation: 'leasePack',
  });
}
