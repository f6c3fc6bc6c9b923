/**
 * The quotas of each Space: limits as last read from the registry, and the bytes and nodes that each App stores. Only Apps with a quota are
 * summed, when something is about to be stored. Within this process an App's quota is never exceeded; changes by other processes are seen
 * at the next reading.
 */
import type { Space } from '../core/model.ts';
import type { MetadataStore } from '../core/ports.ts';
import {
  type Excess,
  findExcess,
  NOTHING_STORED,
  type QuotaLimits,
  type Quotas,
  type Reservation,
  type SpaceQuotas,
  type Stored,
  storedOf,
} from '../core/quotas.ts';

interface Limits {
  readonly space: QuotaLimits | undefined;
  readonly app: QuotaLimits | undefined;
}

/** The bytes and nodes that an App stores. A reading replaces only `stored`. */
class AppSum {
  /** monotonic ms at the start of the last successful reading */
  readAt = Number.NEGATIVE_INFINITY;
  /** duration of that reading, ms */
  tookMs = 0;
  readings = 0;
  stored: Stored = NOTHING_STORED;
  /** stored by this process after the last reading */
  since: Stored = NOTHING_STORED;
  /** stored by this process during a reading, so `stored` may or may not include it */
  during: Stored = NOTHING_STORED;
  /** what is about to be stored */
  pending: Stored = NOTHING_STORED;
  reading: Promise<void> | undefined;
  /** resolves when a pending store is settled */
  settled = Promise.withResolvers<void>();

  get surely(): Stored {
    return add(this.stored, this.since);
  }

  get atMost(): Stored {
    return add(add(this.surely, this.during), this.pending);
  }
}

export class QuotaWatch implements Quotas {
  readonly #findLimits: (space: Space) => Limits | undefined;
  readonly #metadata: Pick<MetadataStore, 'readAppTotals'>;
  readonly #monotonicNow: () => number;
  readonly #heldByOthers: (appId: string) => number;
  readonly #sums = new Map<string, AppSum>();
  /** the same including uploads that are received and not judged */
  readonly #receipts = new Map<string, AppSum>();

  constructor(
    findLimits: (space: Space) => Limits | undefined,
    metadata: Pick<MetadataStore, 'readAppTotals'>,
    monotonicNow: () => number,
    heldByOthers: (appId: string) => number = () => 0,
  ) {
    this.#findLimits = findLimits;
    this.#metadata = metadata;
    this.#monotonicNow = monotonicNow;
    this.#heldByOthers = heldByOthers;
  }

  find(space: Space): SpaceQuotas | undefined {
    const limits = this.#findLimits(space);
    return limits && { space: limits.space, isAppLimited: limits.app !== undefined };
  }

  async findAppExcess(space: Space, more: Stored): Promise<Excess | undefined> {
    const reserved = await this.reserve(space, more);
    if (!('settle' in reserved)) return reserved;
    reserved.settle(false);
    return undefined;
  }

  reserve(space: Space, more: Stored): Promise<Excess | Reservation> {
    return this.#reserve(space, more, sumOf(this.#sums, space.appId), () => this.#readStored(space.appId));
  }

  reserveReceipt(space: Space, bytes: number): Promise<Excess | Reservation> {
    const sum = sumOf(this.#receipts, space.appId);
    return this.#reserve(space, { bytes, nodes: 0 }, sum, () => this.#readReceived(space.appId));
  }

  async #reserve(
    space: Space,
    more: Stored,
    sum: AppSum,
    reader: () => Promise<Stored>,
  ): Promise<Excess | Reservation> {
    const age = this.#monotonicNow() - sum.readAt;
    // A sum that is older is not used.
    if (age > Math.max(4_000, 8 * sum.tookMs)) await this.#read(sum, reader);
    // If this reading fails, a later one may succeed before the sum is too old.
    // A sum that is older is read again while requests go on. For an App with very many Spaces a reading takes long.
    else if (age > Math.max(1_000, 4 * sum.tookMs)) this.#read(sum, reader).catch(() => undefined);
    const judge = (stored: Stored) => findExcess('App', this.#findLimits(space)?.app, stored, more);
    // A sum may count something twice. After eight looks the room is granted, because the sum may be that old anyway.
    for (let looks = 0; looks < 8 && judge(sum.atMost) !== undefined; looks += 1) {
      // A refusal requires a fresh sum.
      if (this.#monotonicNow() - sum.readAt > 250) await this.#read(sum, reader);
      const excess = judge(sum.surely);
      if (excess !== undefined) return excess;
      // A double count would refuse a node that fits.
      if (judge(add(sum.surely, sum.pending)) !== undefined) await sum.settled.promise;
      else if (judge(sum.atMost) !== undefined) await this.#read(sum, reader);
    }
    return hold(sum, more);
  }

  async #readStored(appId: string): Promise<Stored> {
    return storedOf(await this.#metadata.readAppTotals(appId));
  }

  /** Uploads in progress are read first: one that finishes meanwhile is counted twice, and none is missed. */
  async #readReceived(appId: string): Promise<Stored> {
    const held = this.#heldByOthers(appId);
    const totals = await this.#metadata.readAppTotals(appId);
    return { bytes: storedOf(totals).bytes + totals.pendingBytes + held, nodes: 0 };
  }

  /** Callers during a reading share it. */
  #read(sum: AppSum, reader: () => Promise<Stored>): Promise<void> {
    sum.reading ??= this.#readSum(sum, reader).finally(() => {
      sum.reading = undefined;
    });
    return sum.reading;
  }

  async #readSum(sum: AppSum, reader: () => Promise<Stored>): Promise<void> {
    const readAt = this.#monotonicNow();
    const before = add(sum.since, sum.during);
    sum.stored = await reader();
    sum.during = add(add(sum.since, sum.during), before, -1);
    sum.since = NOTHING_STORED;
    sum.readAt = readAt;
    sum.tookMs = this.#monotonicNow() - readAt;
    sum.readings += 1;
  }
}

function sumOf(sums: Map<string, AppSum>, appId: string): AppSum {
  const known = sums.get(appId);
  if (known !== undefined) return known;
  if (sums.size >= 10_000) sums.delete(sums.keys().next().value as string);
  const sum = new AppSum();
  sums.set(appId, sum);
  return sum;
}

function hold(sum: AppSum, more: Stored): Reservation {
  const { readings } = sum;
  sum.pending = add(sum.pending, more);
  return {
    more,
    settle: (isStored, stored = more) => {
      sum.pending = add(sum.pending, more, -1);
      if (isStored && sum.readings === readings) sum.since = add(sum.since, stored);
      else if (isStored) sum.during = add(sum.during, stored);
      sum.settled.resolve();
      sum.settled = Promise.withResolvers();
    },
  };
}

function add(left: Stored, right: Stored, sign: 1 | -1 = 1): Stored {
  return {
    bytes: left.bytes + sign * right.bytes,
    nodes: left.nodes + sign * right.nodes,
    commits: (left.commits ?? 0) + sign * (right.commits ?? 0),
  };
}
