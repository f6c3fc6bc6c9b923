/** Nodes on their way into a Space: what it lacks is asked in batches and travels in packs. What cannot is left to the caller. */
import { BULK_HASHES_MAX, type BulkLeaseResult, type Hash } from '@holdfast/protocol';
import { DAMAGED_UPLOADS_MAX } from '../limits.ts';
import { TimeSlice } from '../time-slice.ts';
import type { Bulk } from './bulk.ts';
import { type Batch, Gathered } from './gathered.ts';
import { type PackOutcome, Packs, type PacksOptions } from './packs.ts';
import { isBulkUnavailable } from './send-request.ts';

export interface DeliveryOptions
  extends Omit<PacksOptions<Queued>, 'bulk' | 'onOutcome' | 'onFailure' | 'onEnd'> {
  readonly bulk: Bulk;
  /** Whether more nodes come by themselves, so that few of them wait for those. Never when left out. */
  readonly isMoreComing?: (() => boolean) | undefined;
}

export interface DeliveredNode {
  readonly hash: Hash;
  /** That of packs when left out. */
  readonly leaseDurationMs?: number | undefined;
  /** The canonical bytes, asked for when their pack is made. `isSuspect`: they arrived wrong. `release`: no longer needed. */
  readonly make: (isSuspect: boolean) => Promise<Uint8Array>;
  readonly release?: ((bytes: Uint8Array) => void) | undefined;
  /** The server lacks it, and it goes into a pack. May be called again. */
  readonly onAbsent?: (() => void) | undefined;
}

export type DeliveryOutcome = Exclude<PackOutcome, { readonly kind: 'unsettled' }>;

interface Queued {
  readonly hash: Hash;
  readonly make: () => Promise<Uint8Array>;
  readonly release: DeliveredNode['release'];
  readonly settle: (outcome: PackOutcome) => void;
  readonly fail: (error: unknown) => void;
  /** once it was made */
  canonicalLength: number;
}

interface AskedLease {
  readonly settle: (result: BulkLeaseResult | undefined) => void;
  readonly fail: (error: unknown) => void;
  readonly leaseDurationMs: number;
  /** Whether the node would go into a pack if it is absent. */
  readonly isPackable: boolean;
}

export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #leases: Gathered<AskedLease>;
  readonly #packs: Packs<Queued>;
  readonly #queue: Queued[] = [];
  #isMaking = false;
  /** A request for leases is on its way that opens a pack too. */
  #isPackComing = false;

  constructor(options: DeliveryOptions) {
    this.#options = options;
    this.#leases = new Gathered({
      send: (batch) => this.#ask(batch),
      besideMin: BULK_HASHES_MAX,
      isMoreComing: options.isMoreComing,
      onIdle: () => this.#flush(),
    });
    this.#packs = new Packs({
      ...options,
      onOutcome: ({ settle }, outcome) => settle(outcome),
      onFailure: ({ fail }, error) => fail(error),
      onEnd: () => this.sendSoon(),
    });
  }

  /** Rejects with what `make` or a request rejects with. */
  async deliver(node: DeliveredNode): Promise<DeliveryOutcome> {
    const { leaseDurationMs = this.#options.leaseDurationMs } = node;
    let isSuspect = false;
    for (let damagedCount = 0; ; damagedCount += 1) {
      const lease = await this.#lease(node.hash, leaseDurationMs, true);
      if (lease === undefined) return { kind: 'alone' };
      if (lease.state !== 'absent') return { kind: 'leased', lease, uploadedBytes: undefined };
      if (damagedCount > DAMAGED_UPLOADS_MAX) return { kind: 'alone' };
      node.onAbsent?.();
      const outcome = await this.#upload(node, isSuspect);
      isSuspect = outcome.kind === 'rejected' && outcome.rejection.code === 'NODE_DIGEST_MISMATCH';
      if (outcome.kind === 'unsettled' || (isSuspect && damagedCount < DAMAGED_UPLOADS_MAX)) continue;
      return outcome;
    }
  }

  /** The server's answer about the node; undefined when it does not offer Bulk. Rejects with the failure of the request. */
  async lease(hash: Hash, leaseDurationMs: number): Promise<BulkLeaseResult | undefined> {
    return this.#lease(hash, leaseDurationMs, false);
  }

  /** To be called when nothing more comes: what waits for more goes as it is. */
  sendSoon(): void {
    this.#leases.flushSoon();
  }

  async #lease(
    hash: Hash,
    leaseDurationMs: number,
    isPackable: boolean,
  ): Promise<BulkLeaseResult | undefined> {
    if (!this.#options.bulk.isOffered) return undefined;
    return new Promise((settle, fail) => {
      this.#leases.ask(hash, { settle, fail, leaseDurationMs, isPackable });
    });
  }

  /** One request has one duration: the longest that was asked for. */
  async #ask(batch: Batch<AskedLease>): Promise<void> {
    const { bulk, send, signal, onRot } = this.#options;
    const hashes = [...batch.keys()];
    const asked = [...batch.values()].flat();
    const leaseDurationMs = asked.reduce((longest, one) => Math.max(longest, one.leaseDurationMs), 0);
    const isAnyPackable = asked.some(({ isPackable }) => isPackable);
    const pack = isAnyPackable && !this.#isPackComing && this.#packs.instruction === undefined;
    if (pack) this.#isPackComing = true;
    try {
      const what = hashes.length === 1 ? 'a lease' : `leases of ${hashes.length} nodes`;
      const answer = await send(what, () => bulk.leaseNodes(hashes, { leaseDurationMs, pack }, { signal }));
      this.#packs.instruction = answer.pack ?? this.#packs.instruction;
      onRot?.(answer.rottenNodes ?? 0);
      for (const [index, callers] of [...batch.values()].entries()) {
        for (const { settle } of callers) settle(answer.results[index]);
      }
    } catch (error) {
      const isGone = isBulkUnavailable(error);
      for (const { settle, fail } of asked) isGone ? settle(undefined) : fail(error);
    } finally {
      if (pack) this.#isPackComing = false;
    }
  }

  #upload({ hash, make, release }: DeliveredNode, isSuspect: boolean): Promise<PackOutcome> {
    return new Promise((settle, fail) => {
      this.#queue.push({ hash, make: () => make(isSuspect), release, settle, fail, canonicalLength: 0 });
      if (!this.#isMaking) void this.#make();
    });
  }

  async #make(): Promise<void> {
    const slice = new TimeSlice();
    this.#isMaking = true;
    for (let node = this.#queue.shift(); node !== undefined; node = this.#queue.shift()) {
      try {
        this.#options.signal?.throwIfAborted();
        await this.#place(node);
      } catch (error) {
        node.fail(error);
      }
      const turn = slice.pass();
      if (turn !== undefined) await turn;
    }
    this.#isMaking = false;
    this.sendSoon();
  }

  async #place(node: Queued): Promise<void> {
    const bytes = await node.make();
    try {
      const record = this.#packs.encode(node.hash, bytes);
      node.canonicalLength = record.canonicalLength;
      if (this.#packs.put(record, node)) return;
      await this.#packs.close();
      if (!this.#packs.put(record, node)) node.settle({ kind: 'alone' });
    } finally {
      node.release?.(bytes);
    }
  }

  /** All leases are answered. A pack that still has room is sent only while fewer than three are on their way. */
  #flush(): void {
    const isMoreComing = this.#isMaking || this.#options.isMoreComing?.() === true;
    if (!isMoreComing && this.#packs.count < 3) void this.#packs.close();
  }
}
