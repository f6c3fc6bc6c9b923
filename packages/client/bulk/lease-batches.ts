/** Leases gathered into requests of Bulk: what is asked for while one is on its way goes with the next. */
import { BULK_HASHES_MAX, type BulkLeaseResult, type Hash, type PackInstruction } from '@holdfast/protocol';
import type { Bulk } from './bulk.ts';
import { isBulkUnavailable, type SendRequest } from './send-request.ts';

export interface LeaseBatchesOptions {
  readonly bulk: Pick<Bulk, 'leaseNodes' | 'isOffered'>;
  readonly send: SendRequest;
  readonly signal: AbortSignal | undefined;
  /** Whether a pack is to be opened for what is absent. */
  readonly wantsPack: () => boolean;
  readonly onPack: (pack: PackInstruction) => void;
  /** How many nodes of the Space the server knows to be damaged, with every answer. */
  readonly onRot: (rottenNodes: number) => void;
  /** Whether more nodes come by themselves, so that few of them wait for those. */
  readonly isMoreComing: () => boolean;
  /** Nothing waits and nothing is on its way. */
  readonly onIdle: () => void;
}

export interface AskedLease {
  readonly leaseDurationMs: number;
  /** Whether the node would go into a pack if it is absent. */
  readonly isPackable: boolean;
}

interface Waiting extends AskedLease {
  readonly settle: ((result: BulkLeaseResult | undefined) => void)[];
  readonly fail: ((error: unknown) => void)[];
}

/** Requests at once. A second one goes only when it is full. */
const REQUESTS_MAX = 2;
/** Fewer wait for those that are coming. */
const BATCH_WHILE_COMING_MIN = BULK_HASHES_MAX / 8;

export class LeaseBatches {
  readonly #options: LeaseBatchesOptions;
  #waiting = new Map<Hash, Waiting>();
  #running = 0;
  #isFlushSoon = false;
  #isPackComing = false;

  constructor(options: LeaseBatchesOptions) {
    this.#options = options;
  }

  get isIdle(): boolean {
    return this.#running === 0 && this.#waiting.size === 0;
  }

  /** The server's answer about the node; undefined when it does not offer Bulk. Rejects with the failure of the request. */
  async lease(hash: Hash, asked: AskedLease): Promise<BulkLeaseResult | undefined> {
    if (!this.#options.bulk.isOffered) return undefined;
    return new Promise((resolve, reject) => {
      const other = this.#waiting.get(hash);
      if (other === undefined) this.#waiting.set(hash, { ...asked, settle: [resolve], fail: [reject] });
      else {
        other.settle.push(resolve);
        other.fail.push(reject);
      }
      this.#flushSoon();
    });
  }

  /** After this turn of the event loop: until then others may ask too. */
  #flushSoon(): void {
    if (this.#isFlushSoon) return;
    this.#isFlushSoon = true;
    setTimeout(() => {
      this.#isFlushSoon = false;
      this.flush();
    }, 0);
  }

  /** To be called too when nothing more comes. */
  flush(): void {
    const mayBegin = (): boolean => {
      if (this.#waiting.size < BATCH_WHILE_COMING_MIN && this.#options.isMoreComing()) return false;
      return this.#running === 0 || (this.#running < REQUESTS_MAX && this.#waiting.size >= BULK_HASHES_MAX);
    };
    while (this.#waiting.size > 0 && mayBegin()) void this.#ask(this.#takeBatch());
    if (this.isIdle) this.#options.onIdle();
  }

  /** One request has one duration. */
  #takeBatch(): Map<Hash, Waiting> {
    const batch = new Map<Hash, Waiting>();
    let leaseDurationMs: number | undefined;
    for (const [hash, waiting] of this.#waiting) {
      leaseDurationMs ??= waiting.leaseDurationMs;
      if (waiting.leaseDurationMs !== leaseDurationMs) continue;
      batch.set(hash, waiting);
      this.#waiting.delete(hash);
      if (batch.size === BULK_HASHES_MAX) break;
    }
    return batch;
  }

  async #ask(batch: ReadonlyMap<Hash, Waiting>): Promise<void> {
    const { bulk, send, signal, wantsPack, onPack, onRot } = this.#options;
    const hashes = [...batch.keys()];
    const [{ leaseDurationMs } = { leaseDurationMs: 0 }] = batch.values();
    const isAnyPackable = [...batch.values()].some(({ isPackable }) => isPackable);
    const pack = isAnyPackable && !this.#isPackComing && wantsPack();
    this.#running += 1;
    if (pack) this.#isPackComing = true;
    try {
      const what = hashes.length === 1 ? 'a lease' : `leases of ${hashes.length} nodes`;
      const answer = await send(what, () => bulk.leaseNodes(hashes, { leaseDurationMs, pack }, { signal }));
      if (answer.pack !== undefined) onPack(answer.pack);
      onRot(answer.rottenNodes ?? 0);
      for (const [index, { settle }] of [...batch.values()].entries()) {
        for (const resolve of settle) resolve(answer.results[index]);
      }
    } catch (error) {
      const isGone = isBulkUnavailable(error);
      for (const { settle, fail } of batch.values()) {
        if (isGone) for (const resolve of settle) resolve(undefined);
        else for (const reject of fail) reject(error);
      }
    } finally {
      if (pack) this.#isPackComing = false;
      this.#running -= 1;
      this.#flushSoon();
    }
  }
}
