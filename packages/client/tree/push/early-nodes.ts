/** Nodes that travel while the rest of the tree is still read. What does not arrive is left to the push, which asks for the root. */
import {
  BULK_HASHES_MAX,
  type EncodedRecord,
  HASH_TABLE_MAX,
  type Hash,
  HashTable,
  type ReadyLease,
} from '@holdfast/protocol';
import { PACKED_NODE_BYTES_MAX, type PackedNode, type PackOutcome, Packs } from '../../bulk/packs.ts';
import { isBulkUnavailable } from '../../bulk/send-request.ts';
import type { Client } from '../../client.ts';
import { type Clock, systemClock } from '../../deadline.ts';
import { PatientRequests } from '../jobs/patient-requests.ts';
import { type ProgressReporter, SILENT_PROGRESS } from '../jobs/progress.ts';

/** Files and bytes of the tree that a node holds itself: none for a directory or an index. */
export interface EarlyNodeContent {
  readonly files: number;
  readonly bytes: number;
}

type EarlyNode = PackedNode & EarlyNodeContent;

/** Counts of nodes that arrived before the push began, or were there. */
export interface EarlyCounts {
  readonly uploadedNodes: number;
  /** canonical bytes */
  readonly uploadedBytes: number;
  /** told to the progress already */
  readonly files: number;
  readonly bytes: number;
  /** The lease of the node that came last, if it is ready and the server knows of no damage in the Space. */
  readonly lastLease: ReadyLease | undefined;
}

export interface EarlyNodesOptions {
  readonly client: Partial<Pick<Client, 'bulk'>>;
  /** No node above them protects them yet. */
  readonly leaseDurationMs: number;
  /** Resolves once anything may be sent; what it rejects with, `add` does. */
  readonly beforeSending: () => Promise<void>;
  readonly patienceMs?: number | undefined;
  readonly progress?: ProgressReporter | undefined;
  readonly clock?: Clock | undefined;
  readonly signal?: AbortSignal | undefined;
}

export class EarlyNodes {
  readonly #options: EarlyNodesOptions;
  readonly #progress: ProgressReporter;
  readonly #requests: PatientRequests;
  readonly #packs: Packs<EarlyNode> | undefined;
  readonly #ending = new AbortController();
  readonly #onCallerAbort: () => void;
  readonly #added = new HashTable();
  /** Parents that were judged before their children were there. */
  readonly #waiting: Hash[] = [];
  readonly #counts = { uploadedNodes: 0, uploadedBytes: 0, files: 0, bytes: 0 };
  #isStopped: boolean;
  /** A node was left to the push, so that everything above it waits. */
  #hasLeftOut = false;
  #hasBegun = false;
  #failure: { readonly error: unknown } | undefined;
  #lastAdded: Hash | undefined;
  #lastLease: ReadyLease | undefined;
  #rottenNodes = 0;
  /** of the last pack that was full */
  #closing: Promise<void> | undefined;
  /** nodes that the server had */
  #foundNodes = 0;
  /** canonical, of these */
  #foundBytes = 0;

  constructor(options: EarlyNodesOptions) {
    const { client, leaseDurationMs, patienceMs, clock = systemClock, signal: callerSignal } = options;
    this.#options = options;
    this.#progress = options.progress ?? SILENT_PROGRESS;
    this.#onCallerAbort = () => this.#ending.abort(callerSignal?.reason);
    callerSignal?.addEventListener('abort', this.#onCallerAbort, { once: true });
    if (callerSignal?.aborted) this.#onCallerAbort();
    const { signal } = this.#ending;
    const requests = new PatientRequests({ clock, patienceMs, progress: this.#progress, signal });
    this.#requests = requests;
    this.#isStopped = client.bulk?.isOffered !== true;
    this.#packs =
      client.bulk &&
      new Packs({
        bulk: client.bulk,
        send: (what, request) => requests.send(what, false, request),
        signal,
        clock,
        leaseDurationMs,
        onSent: (packBytes) => this.#progress.count({ transferredBytes: packBytes }),
        onOutcome: (node, outcome) => this.#take(node, outcome),
        onFailure: (_, error) => this.#fail(error),
        onRot: (rottenNodes) => {
          this.#rottenNodes = rottenNodes;
        },
      });
  }

  /** Whether anything was sent before `finish`. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /**
   * Takes a node, of which it looks at `canonical` no longer than until it returns or settles. Parents best come after
   * that, and the root always does. Throws what a request failed with.
   */
  add(hash: Hash, canonical: Uint8Array, content: EarlyNodeContent): void | Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    const packs = this.#packs;
    if (packs === undefined || this.#isStopped) return undefined;
    if (this.#added.size >= HASH_TABLE_MAX) return this.#stop();
    if (canonical.length > PACKED_NODE_BYTES_MAX) {
      this.#hasLeftOut = true;
      return undefined;
    }
    // Its twin is on its way.
    if (!this.#added.add(hash)) return this.#count(content, content.bytes);
    this.#lastAdded = hash;
    const record = packs.encodeAside(hash, canonical);
    const node = { hash, canonicalLength: canonical.length, files: content.files, bytes: content.bytes };
    if (!(record instanceof Promise)) return this.#put(packs, record, node);
    return record.then((encoded) => this.#put(packs, encoded, node));
  }

  #put(packs: Packs<EarlyNode>, record: EncodedRecord, node: EarlyNode): void | Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#isStopped || packs.put(record, node)) return undefined;
    return this.#putIntoNext(packs, () => packs.put(record, node));
  }

  /**
   * Sends what is left, and waits for all. A root that did not come last is as it was last time: then nothing is left to ask, because
   * the push asks for the root. Rejects with what a request failed with.
   */
  async finish(root: Hash): Promise<EarlyCounts> {
    if (!this.#isStopped && this.#lastAdded === root) await this.#packs?.close();
    await this.#packs?.settled();
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#lastAdded === root && this.#lastLease === undefined) await this.#leaseWaiting();
    return { ...this.#counts, lastLease: this.#rottenNodes === 0 ? this.#lastLease : undefined };
  }

  /** Gives up what is on its way. To be called in any case. */
  async end(): Promise<void> {
    this.#options.signal?.removeEventListener('abort', this.#onCallerAbort);
    this.#stop();
    this.#ending.abort(new Error('the push has ended'));
    await this.#packs?.settled();
  }

  /** Several may wait for this. One closes the pack, and until that has its place nobody closes the next. */
  async #putIntoNext(packs: Packs<EarlyNode>, put: () => boolean): Promise<void> {
    await this.#options.beforeSending();
    this.#hasBegun = true;
    for (;;) {
      await this.#closing;
      if (this.#failure !== undefined) throw this.#failure.error;
      if (this.#isStopped || put()) return;
      this.#closing = packs.close();
    }
  }

  /**
   * Packs are judged side by side, so some parents came before their children. The server leases the children of one request first:
   * one finds them all ready, the root too, where a walk from the root would ask level by level.
   */
  async #leaseWaiting(): Promise<void> {
    const { client, leaseDurationMs } = this.#options;
    const { bulk } = client;
    const hashes = this.#waiting;
    if (bulk === undefined || this.#isStopped || this.#hasLeftOut) return;
    if (hashes.length === 0 || hashes.length > BULK_HASHES_MAX) return;
    const { signal } = this.#ending;
    try {
      const { results, rottenNodes = 0 } = await this.#requests.send('leases of what waits', false, () =>
        bulk.leaseNodes(hashes, { leaseDurationMs }, { signal }),
      );
      this.#rottenNodes = rottenNodes;
      for (const result of results) if (result.state === 'ready') this.#takeReady(result);
    } catch (error) {
      if (!isBulkUnavailable(error)) throw error;
    }
  }

  #takeReady(lease: ReadyLease): void {
    if (lease.hash === this.#lastAdded) this.#lastLease = lease;
  }

  #take(node: EarlyNode, outcome: PackOutcome): void {
    // The push meets what is wrong with a node, and tells.
    if (outcome.kind !== 'leased') {
      this.#stop();
      return;
    }
    const { lease, uploadedBytes } = outcome;
    if (lease.state === 'ready') this.#takeReady(lease);
    else if (this.#waiting.length <= BULK_HASHES_MAX) this.#waiting.push(lease.hash);
    if (uploadedBytes === undefined) {
      this.#foundNodes += 1;
      this.#foundBytes += node.canonicalLength;
      // Fewer nodes say nothing of the tree, unless they are large.
      const saysMuch = this.#foundNodes >= 64 || this.#foundBytes >= 8 * 1024 * 1024;
      // The push finds the rest sooner, with one question for a whole folder.
      if (saysMuch && this.#foundNodes > 0.25 * this.#added.size) this.#stop();
      this.#count(node, node.bytes);
      return;
    }
    this.#counts.uploadedNodes += 1;
    this.#counts.uploadedBytes += uploadedBytes;
    this.#count(node, 0, 1);
  }

  #count({ files, bytes }: EarlyNodeContent, deduplicatedBytes: number, transferredNodes = 0): void {
    this.#counts.files += files;
    this.#counts.bytes += bytes;
    this.#progress.count({ files, bytes, deduplicatedBytes, transferredNodes });
  }

  #stop(): void {
    this.#isStopped = true;
  }

  #fail(error: unknown): void {
    this.#stop();
    if (!isBulkUnavailable(error)) this.#failure ??= { error };
  }
}
