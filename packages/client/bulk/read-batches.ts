/** Reads gathered into requests of Bulk: what is asked for while one is on its way goes with the next. */
import { BULK_HASHES_MAX, type Hash } from '@holdfast/protocol';
import { VerificationError } from '../errors.ts';
import type { Bulk } from './bulk.ts';
import type { BulkNode, ReadRecordsOptions, UnprovenNode } from './read-nodes.ts';
import { describeReading, isBulkUnavailable, type SendRequest } from './send-request.ts';

export interface ReadBatchesOptions {
  readonly bulk: Pick<Bulk, 'readNodes' | 'readRecords'>;
  readonly send: SendRequest;
  readonly signal: AbortSignal | undefined;
  readonly memory?: ReadRecordsOptions['memory'];
  readonly onNode: (node: BulkNode | UnprovenNode) => void;
  /** Whether more will be asked for by itself, so that a small request waits for it. Never when left out. */
  readonly isMoreComing?: (() => boolean) | undefined;
  /** Nothing is asked for or on its way any more. */
  readonly onIdle?: (() => void) | undefined;
}

type Waiting = WaitingForNode | WaitingForRecord;

interface WaitingForNode {
  readonly takesUnproven: false;
  readonly settle: (node: BulkNode | undefined) => void;
  readonly fail: (error: unknown) => void;
}

interface WaitingForRecord {
  readonly takesUnproven: true;
  readonly settle: (node: BulkNode | UnprovenNode | undefined) => void;
  readonly fail: (error: unknown) => void;
}

/** Requests at once: one is answered while the other is on its way. */
const REQUESTS_MAX = 2;
/** A batch of this many nodes does not wait for more. */
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
    return new Promise((settle, fail) => this.#wait(hash, { takesUnproven: false, settle, fail }));
  }

  /** The same, for a caller that has it verified elsewhere. It comes verified all the same if somebody else waits for it too. */
  readRecord(hash: Hash): Promise<BulkNode | UnprovenNode | undefined> {
    return new Promise((settle, fail) => this.#wait(hash, { takesUnproven: true, settle, fail }));
  }

  #wait(hash: Hash, waiting: Waiting): void {
    const others = this.#waiting.get(hash);
    if (others === undefined) this.#waiting.set(hash, [waiting]);
    else others.push(waiting);
    this.#flushSoon();
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
    const { onNode } = this.#options;
    if (batch.size === 0) return;
    for await (const node of this.#read(batch)) {
      const waiting = batch.get(node.hash) ?? [];
      batch.delete(node.hash);
      onNode(node);
      // The memory of a node that several readers have is nobody's to give back.
      const shared = isProven(node) && waiting.length > 1 ? { ...node, memory: undefined } : node;
      for (const each of waiting) {
        if (each.takesUnproven) each.settle(shared);
        else if (isProven(shared)) each.settle(shared);
      }
    }
  }

  #read(
    batch: ReadonlyMap<Hash, readonly Waiting[]>,
  ): AsyncGenerator<BulkNode | UnprovenNode, void, undefined> {
    const { bulk, signal, memory } = this.#options;
    const hashes = [...batch.keys()];
    const isLeftUnproven = (hash: Hash): boolean => {
      const waiting = batch.get(hash);
      return waiting?.length === 1 && waiting[0]?.takesUnproven === true;
    };
    return (
      bulk.readRecords?.(hashes, { signal, memory, isLeftUnproven }) ?? bulk.readNodes(hashes, { signal })
    );
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

export function isProven(node: BulkNode | UnprovenNode): node is BulkNode {
  return !('prove' in node);
}
