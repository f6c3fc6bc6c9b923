/**
 * The quotas that hold in each Space, for the rules: limits as the registry was last read, and what each App stores. Only Apps that
 * have a quota of their own are summed, when something is about to be stored.
 */
import type { Space } from '../core/model.ts';
import type { MetadataStore } from '../core/ports.ts';
import { type QuotaLimits, type Quotas, type SpaceQuotas, type Stored, storedOf } from '../core/quotas.ts';

/** A sum this old is read again, while requests go on with it. */
const SUM_FRESH_MS = 1_000;
/** Before a refusal a sum this old is read again. */
const SUM_JUST_READ_MS = 250;
/** No sum older than this is used. */
const SUM_STALE_MS = 4_000;
/** Apps whose sums are remembered. */
const SUMS_MAX = 10_000;

interface Limits {
  readonly space: QuotaLimits | undefined;
  readonly app: QuotaLimits | undefined;
}

interface Sum {
  /** monotonic ms at the start of the reading */
  readonly readAt: number;
  readonly stored: Stored;
  /** what this process stored during the reading: `stored` may have it or not */
  readonly during: Stored;
  /** what this process has stored since */
  since: Stored;
}

export class QuotaWatch implements Quotas {
  readonly #findLimits: (space: Space) => Limits | undefined;
  readonly #metadata: Pick<MetadataStore, 'readAppTotals'>;
  readonly #monotonicNow: () => number;
  readonly #sums = new Map<string, Sum>();
  readonly #readings = new Map<string, Promise<Sum>>();

  constructor(
    findLimits: (space: Space) => Limits | undefined,
    metadata: Pick<MetadataStore, 'readAppTotals'>,
    monotonicNow: () => number,
  ) {
    this.#findLimits = findLimits;
    this.#metadata = metadata;
    this.#monotonicNow = monotonicNow;
  }

  find(space: Space): SpaceQuotas | undefined | Promise<SpaceQuotas | undefined> {
    const limits = this.#findLimits(space);
    if (limits === undefined) return undefined;
    if (limits.app === undefined) return { space: limits.space, app: undefined };
    const sum = this.#sums.get(space.appId);
    const age = sum === undefined ? Number.POSITIVE_INFINITY : this.#monotonicNow() - sum.readAt;
    if (sum === undefined || age > SUM_STALE_MS) {
      return this.#read(space.appId).then((read) => withSum(limits, upperSum(read)));
    }
    // If this reading fails, the next one may succeed before the sum is too old.
    if (age > SUM_FRESH_MS) this.#read(space.appId).catch(() => undefined);
    return withSum(limits, upperSum(sum));
  }

  /** Leaves out what was stored during the reading: counted twice it would refuse what fits. */
  async findFresh(space: Space): Promise<SpaceQuotas | undefined> {
    const limits = this.#findLimits(space);
    if (limits?.app === undefined) return limits === undefined ? undefined : { ...limits, app: undefined };
    const known = this.#sums.get(space.appId);
    const isJustRead = known !== undefined && this.#monotonicNow() - known.readAt <= SUM_JUST_READ_MS;
    const { stored, since } = isJustRead ? known : await this.#read(space.appId);
    return withSum(limits, addStored(stored, since));
  }

  noteStored({ appId }: Space, more: Stored): void {
    const sum = this.#sums.get(appId);
    if (sum !== undefined) sum.since = addStored(sum.since, more);
  }

  /** Those who ask while a reading is under way share it. */
  #read(appId: string): Promise<Sum> {
    const known = this.#readings.get(appId);
    if (known !== undefined) return known;
    const reading = this.#readSum(appId).finally(() => this.#readings.delete(appId));
    this.#readings.set(appId, reading);
    return reading;
  }

  async #readSum(appId: string): Promise<Sum> {
    const readAt = this.#monotonicNow();
    const before = this.#sums.get(appId)?.since ?? NOTHING;
    const stored = storedOf(await this.#metadata.readAppTotals(appId));
    const after = this.#sums.get(appId)?.since ?? NOTHING;
    const sum: Sum = { readAt, stored, during: addStored(after, before, -1), since: NOTHING };
    this.#sums.delete(appId);
    if (this.#sums.size >= SUMS_MAX) this.#sums.delete(this.#sums.keys().next().value as string);
    this.#sums.set(appId, sum);
    return sum;
  }
}

const NOTHING: Stored = { bytes: 0, nodes: 0 };

function addStored(left: Stored, right: Stored, sign: 1 | -1 = 1): Stored {
  return { bytes: left.bytes + sign * right.bytes, nodes: left.nodes + sign * right.nodes };
}

function upperSum({ stored, during, since }: Sum): Stored {
  return addStored(addStored(stored, during), since);
}

function withSum({ space, app }: Limits, stored: Stored): SpaceQuotas {
  return { space, app: app === undefined ? undefined : { limits: app, stored } };
}
