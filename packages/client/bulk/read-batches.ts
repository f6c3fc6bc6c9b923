/** Reads gathered into requests of Bulk: what is asked for while one is on its way goes with the next. */
import type { Hash } from '@holdfast/protocol';
import { VerificationError } from '../errors.ts';
import type { Bulk } from './bulk.ts';
import { type Batch, Gathered } from './gathered.ts';
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

interface Waiting {
  readonly takesUnproven: boolean;
  readonly settle: (node: BulkNode | UnprovenNode | undefined) => void;
  readonly fail: (error: unknown) => void;
}

export class ReadBatches {
  readonly #options: ReadBatchesOptions;
  readonly #gathered: Gathered<Waiting>;

  constructor(options: ReadBatchesOptions) {
    this.#options = options;
    const { isMoreComing, onIdle } = options;
    // One request is answered while the other is on its way.
    this.#gathered = new Gathered({ send: (batch) => this.#run(batch), besideMin: 1, isMoreComing, onIdle });
  }

  /** The node, verified; undefined when it does not come by Bulk: asked for by itself it comes, or tells why not. */
  async read(hash: Hash): Promise<BulkNode | undefined> {
    return (await this.#ask(hash, false)) as BulkNode | undefined;
  }

  /** The same, for a caller that has it verified elsewhere. It comes verified all the same if somebody else waits for it too. */
  readRecord(hash: Hash): Promise<BulkNode | UnprovenNode | undefined> {
    return this.#ask(hash, true);
  }

  #ask(hash: Hash, takesUnproven: boolean): Promise<BulkNode | UnprovenNode | undefined> {
    return new Promise((settle, fail) => this.#gathered.ask(hash, { takesUnproven, settle, fail }));
  }

  get isBusy(): boolean {
    return !this.#gathered.isIdle;
  }

  /** Sends what waits, if nothing more comes for it: to be called when `isMoreComing` may have changed. */
  flushSoon(): void {
    this.#gathered.flushSoon();
  }

  async #run(batch: Batch<Waiting>): Promise<void> {
    try {
      await this.#options.send(describeReading([...batch.keys()]), () => this.#readSome(batch));
      this.#settleAll(batch);
    } catch (error) {
      this.#fail(batch, error);
    }
  }

  /** Those that come leave `batch`: sent again, the request asks for the others only. */
  async #readSome(batch: Batch<Waiting>): Promise<void> {
    const { onNode } = this.#options;
    if (batch.size === 0) return;
    for await (const node of this.#read(batch)) {
      const waiting = batch.get(node.hash) ?? [];
      batch.delete(node.hash);
      onNode(node);
      // The memory of a node that several readers have is nobody's to give back.
      const shared = isProven(node) && waiting.length > 1 ? { ...node, memory: undefined } : node;
      for (const { settle } of waiting) settle(shared);
    }
  }

  #read(batch: Batch<Waiting>): AsyncGenerator<BulkNode | UnprovenNode, void, undefined> {
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

  #fail(batch: Batch<Waiting>, error: unknown): void {
    const isGone = isBulkUnavailable(error);
    if (isGone) this.#settleAll(batch);
    const wrong = error instanceof VerificationError ? error.hash : undefined;
    for (const [hash, waiting] of isGone ? [] : batch) {
      if (wrong !== undefined && hash !== wrong) {
        // Only one record was wrong; what came behind it was not read.
        this.#gathered.ask(hash, ...waiting);
      } else for (const { fail } of waiting) fail(error);
    }
  }

  #settleAll(batch: Batch<Waiting>): void {
    for (const waiting of batch.values()) for (const { settle } of waiting) settle(undefined);
  }
}

export function isProven(node: BulkNode | UnprovenNode): node is BulkNode {
  return !('prove' in node);
}
