/**
 * Nodes of a tree that travel while the rest of it is still being read. Whatever does not arrive this way is left to the push, which
 * asks for the root afterwards and sends what is missing.
 */
import { type Hash, RECORD_CODEC_NONE, type ReadyLease } from '@holdfast/protocol';
import { PACKED_NODE_BYTES_MAX } from '../../bulk/bulk-store.ts';
import { type PackOutcome, PackUploads } from '../../bulk/pack-uploads.ts';
import { isBulkUnavailable } from '../../bulk/send-request.ts';
import type { Client } from '../../client.ts';
import { type Clock, systemClock } from '../../deadline.ts';
import { HASHES_MAX, HashTable } from '../../hash-table.ts';
import { PatientRequests } from '../jobs/patient-requests.ts';
import { type ProgressReporter, SILENT_PROGRESS } from '../jobs/progress.ts';

/** What of the tree a node holds itself: none for a directory or an index. */
export interface EarlyNodeContent {
  readonly files: number;
  readonly bytes: number;
}

/** What arrived before the push began, or was there. */
export interface EarlyCounts {
  readonly uploadedNodes: number;
  /** canonical bytes */
  readonly uploadedBytes: number;
  /** told to the progress already */
  readonly files: number;
  readonly bytes: number;
  /** Of the node that came last, if it is ready and the server knows of no damage in the Space. */
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

/** So much of what was given is there already: the push finds the rest sooner, with one question for a whole folder. */
const FOUND_SHARE_MAX = 0.25;
/** Fewer say nothing of the tree. */
const FOUND_NODES_MIN = 64;

export class EarlyNodes {
  readonly #options: EarlyNodesOptions;
  readonly #progress: ProgressReporter;
  readonly #packs: PackUploads | undefined;
  readonly #ending = new AbortController();
  readonly #onCallerAbort: () => void;
  readonly #added = new HashTable();
  readonly #counts = { uploadedNodes: 0, uploadedBytes: 0, files: 0, bytes: 0 };
  #isStopped: boolean;
  #hasBegun = false;
  #failure: { readonly error: unknown } | undefined;
  #lastAdded: Hash | undefined;
  #lastLease: ReadyLease | undefined;
  #rottenNodes = 0;
  /** nodes that the server had */
  #foundNodes = 0;

  constructor(options: EarlyNodesOptions) {
    const { client, leaseDurationMs, patienceMs, clock = systemClock, signal: callerSignal } = options;
    this.#options = options;
    this.#progress = options.progress ?? SILENT_PROGRESS;
    this.#onCallerAbort = () => this.#ending.abort(callerSignal?.reason);
    callerSignal?.addEventListener('abort', this.#onCallerAbort, { once: true });
    if (callerSignal?.aborted) this.#onCallerAbort();
    const { signal } = this.#ending;
    const requests = new PatientRequests({ clock, patienceMs, progress: this.#progress, signal });
    this.#isStopped = client.bulk?.isOffered !== true;
    this.#packs =
      client.bulk &&
      new PackUploads({
        bulk: client.bulk,
        send: (what, request) => requests.send(what, false, request),
        signal,
        clock,
        leaseDurationMs,
        onSent: (packBytes) => this.#progress.count({ transferredBytes: packBytes }),
        onIdle: () => undefined,
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
   * Takes a node, of which it looks at `canonical` no longer than until it returns or settles; await a promise before the next call.
   * Children come before their parents. Throws what a request failed with.
   */
  add(hash: Hash, canonical: Uint8Array, content: EarlyNodeContent): void | Promise<void> {
    if (this.#failure !== undefined) throw this.#failure.error;
    const packs = this.#packs;
    if (packs === undefined || this.#isStopped) return undefined;
    if (this.#added.size >= HASHES_MAX) return this.#stop();
    // Its twin is on its way.
    if (this.#added.has(hash)) return this.#count(content, content.bytes);
    const record = packs.encode(hash, canonical);
    // By itself it travels as it is.
    if (canonical.length > PACKED_NODE_BYTES_MAX && record.codec === RECORD_CODEC_NONE) return undefined;
    this.#added.add(hash);
    this.#lastAdded = hash;
    const end = {
      settle: (outcome: PackOutcome) => this.#take(outcome, content),
      fail: (error: unknown) => this.#fail(error),
    };
    if (packs.put(record, end)) return undefined;
    return this.#putIntoNext(packs, () => packs.put(record, end));
  }

  /**
   * Sends what is left, and waits for all. A root that did not come last is as it was last time: then nothing is left to ask, because
   * the push asks for the root. Rejects with what a request failed with.
   */
  async finish(root: Hash): Promise<EarlyCounts> {
    if (!this.#isStopped && this.#lastAdded === root) await this.#packs?.close();
    await this.#packs?.settled();
    if (this.#failure !== undefined) throw this.#failure.error;
    return { ...this.#counts, lastLease: this.#rottenNodes === 0 ? this.#lastLease : undefined };
  }

  /** Gives up what is on its way. To be called in any case. */
  async end(): Promise<void> {
    this.#options.signal?.removeEventListener('abort', this.#onCallerAbort);
    this.#stop();
    this.#ending.abort(new Error('the push has ended'));
    await this.#packs?.settled();
  }

  async #putIntoNext(packs: PackUploads, put: () => boolean): Promise<void> {
    await this.#options.beforeSending();
    this.#hasBegun = true;
    await packs.close();
    if (this.#failure !== undefined) throw this.#failure.error;
    if (!this.#isStopped) put();
  }

  #take(outcome: PackOutcome, content: EarlyNodeContent): void {
    // The push meets what is wrong with a node, and tells.
    if (outcome.kind !== 'leased') {
      this.#stop();
      return;
    }
    const { lease, uploadedBytes } = outcome;
    if (lease.hash === this.#lastAdded && lease.state === 'ready') this.#lastLease = lease;
    if (uploadedBytes === undefined) {
      this.#foundNodes += 1;
      if (this.#foundNodes >= FOUND_NODES_MIN && this.#foundNodes > FOUND_SHARE_MAX * this.#added.size)
        this.#stop();
      this.#count(content, content.bytes);
      return;
    }
    this.#counts.uploadedNodes += 1;
    this.#counts.uploadedBytes += uploadedBytes;
    this.#progress.count({ transferredNodes: 1 });
    this.#count(content, 0);
  }

  #count({ files, bytes }: EarlyNodeContent, deduplicatedBytes: number): void {
    this.#counts.files += files;
    this.#counts.bytes += bytes;
    this.#progress.count({ files, bytes, deduplicatedBytes });
  }

  #stop(): void {
    this.#isStopped = true;
  }

  #fail(error: unknown): void {
    this.#stop();
    if (!isBulkUnavailable(error)) this.#failure ??= { error };
  }
}
