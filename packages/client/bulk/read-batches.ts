/** Reads gathered into requests of Bulk: what is asked for while one is on its way goes with the next. */
import { BULK_HASHES_MAX, type Hash } from '@holdfast/protocol';
import { VerificationError } from '../errors.ts';
import type { Bulk } from './bulk.ts';
import type { BulkNode } from './read-nodes.ts';
import { describeReading, isBulkUnavailable, type SendRequest } from './send-request.ts';

export interface ReadBatchesOptions {
  readonly bulk: Pick<Bulk, 'readNodes'>;
  readonly send: SendRequest;
  readonly signal: AbortSignal | undefined;
  readonly onNode: (node: BulkNode) => void;
  /** Whether more will be asked for by itself, so that a small request waits for it. Never when left out. */
  readonly isMoreComing?: (() => boolean) | undefined;
  /** Nothing is asked for or on its way any more. */
  readonly onIdle?: (() => void) | undefined;
}

interface Waiting {
  readonly settle: (node: BulkNode | undefined) => void;
  readonly fail: (error: unknown) => void;
}

/** Requests at once: one is answered while the other is on its way. */
const REQUESTS_MAX = 2;
/** So many nodes do not wait for more. */
const GATHERED_NODES_MIN = 256;

export class ReadBatches {
  readonly #options: ReadBatchesOptions;
  readonly #waiting = new Map<Hash, Waiting[]>();
  #running = 0;
  #isFlushSoon = false;

  constructor(options: ReadBatchesOptions) {
    this.#options = options;
  }

  /** The node, verified; undefined when it does not come by Bulk: asked for by itself it comes, or tells why not. */
  read(hash: Hash): Promise<BulkNode | undefined> {
    return new Promise((settle, fail) => {
      const others = this.#waiting.get(hash);
      if (others === undefined) this.#waiting.set(hash, [{ settle, fail }]);
      else others.push({ settle, fail });
      this.#flushSoon();
    });
  }

  get isBusy(): boolean {
    return this.#running > 0 || this.#waiting.size > 0;
  }

  /** Sends what waits, if nothing more comes for it: to be called when `isMoreComing` may have changed. */
  flushSoon(): void {
    if (this.#waiting.size > 0) this.#flushSoon();
  }

  /** After this turn of the event loop: until then others may ask too. */
  #flushSoon(): void {
    if (this.#isFlushSoon) return;
    this.#isFlushSoon = true;
    setTimeout(() => {
      this.#isFlushSoon = false;
      while (this.#waiting.size > 0 && this.#running < REQUESTS_MAX && !this.#mayGather()) {
        void this.#run(this.#takeBatch());
      }
      if (!this.isBusy) this.#options.onIdle?.();
    }, 0);
  }

  #mayGather(): boolean {
    return this.#waiting.size < GATHERED_NODES_MIN && this.#options.isMoreComing?.() === true;
  }

  #takeBatch(): Map<Hash, Waiting[]> {
    const batch = new Map<Hash, Waiting[]>();
    for (const [hash, waiting] of this.#waiting) {
      batch.set(hash, waiting);
      this.#waiting.delete(hash);
      if (batch.size === BULK_HASHES_MAX) break;
    }
    return batch;
  }

  async #run(batch: Map<Hash, Waiting[]>): Promise<void> {
    this.#running += 1;
    try {
      await this.#options.send(describeReading([...batch.keys()]), () => this.#readSome(batch));
      this.#settleAll(batch);
    } catch (error) {
      this.#fail(batch, error);
    } finally {
      this.#running -= 1;
      this.#flushSoon();
    }
  }

  /** Those that come leave `batch`: sent again, the request asks for the others only. */
  async #readSome(batch: Map<Hash, Waiting[]>): Promise<void> {
    const { bulk, signal, onNode } = this.#options;
    if (batch.size === 0) return;
    for await (const node of bulk.readNodes([...batch.keys()], { signal })) {
      const waiting = batch.get(node.hash) ?? [];
      batch.delete(node.hash);
      onNode(node);
      // The memory of a node that several readers have is nobody's to give back.
      const shared = waiting.length > 1 ? { ...node, memory: undefined } : node;
      for (const { settle } of waiting) settle(shared);
    }
  }

  #fail(batch: Map<Hash, Waiting[]>, error: unknown): void {
    const isGone = isBulkUnavailable(error);
    if (isGone) this.#settleAll(batch);
    const wrong = error instanceof VerificationError ? error.hash : undefined;
    for (const [hash, waiting] of isGone ? [] : batch) {
      if (wrong !== undefined && hash !== wrong) {
        // Only one record was wrong; what came behind it was not read.
        const others = this.#waiting.get(hash) ?? [];
        this.#waiting.set(hash, [...others, ...waiting]);
      } else for (const { fail } of waiting) fail(error);
    }
  }

  #settleAll(batch: ReadonlyMap<Hash, Waiting[]>): void {
    for (const waiting of batch.values()) for (const { settle } of waiting) settle(undefined);
  }
}
