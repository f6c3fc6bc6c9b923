/**
 * Judges strays before they are deleted. A database that was restored from a backup does not know what came after it. So an object
 * without a record first gets a tombstone, and is deleted only if no record appears within a week. A walk that comes across
 * many of them at once stops, because then the rows are most likely not those of this store.
 */

import { DAY_MS, groupsOf } from '@holdfast/protocol';
import { createdAtOf, packOf } from './generation.ts';
import type { Generation, ObjectKey } from './model.ts';
import type { MetadataStore } from './ports.ts';
import { StoreUnavailable } from './store-failure.ts';
import type { FindKnown } from './upkeep-ports.ts';

const DIGIT_BITS = [1, 2, 4, 8] as const;

/** The hex texts that differ in one bit. */
export function neighboursOf(hex: string): string[] {
  return [...hex].flatMap((digit, at) =>
    DIGIT_BITS.map((bit) => {
      const changed = (Number.parseInt(digit, 16) ^ bit).toString(16);
      return hex.slice(0, at) + changed + hex.slice(at + 1);
    }),
  );
}

/** From the tombstone of an object to its end. */
export const TOMBSTONE_MS = 7 * DAY_MS;

const ACCEPTED_NOTE = 'strays-accepted-until';

/** The walk over the objects stopped, and goes on when an operator says so. */
export class StraysSuspicious extends StoreUnavailable {
  override readonly name = 'StraysSuspicious';
}

type Rows = Pick<MetadataStore, 'page' | 'settle'>;

export class StrayWatch {
  #looked = 0;
  #buried = 0;
  #stopped: string | undefined;

  /** why the walk stopped; undefined: it did not */
  get stopped(): string | undefined {
    return this.#stopped;
  }

  begin(): void {
    this.#looked = 0;
    this.#buried = 0;
  }

  /** Resolves with those of `keys` that must stay. Rejects with StraysSuspicious. */
  async findKept(rows: Rows, keys: readonly ObjectKey[], now: number): Promise<ReadonlySet<Generation>> {
    const known = await rows.page('knownGenerations', keys);
    const generations = keys.map(({ generation }) => generation);
    const unknown = generations.filter((generation) => !known.has(generation));
    const tombstones = await rows.page('tombstones', generations);
    this.#looked += keys.length;
    const fresh = unknown.filter((generation) => !tombstones.has(generation));
    await this.#assertFew(rows, fresh.length, keys.length, now);
    const risen = generations.filter((generation) => known.has(generation) && tombstones.has(generation));
    if (unknown.length + risen.length > 0) {
      // Tombstones of objects that no walk has found for 30 days are forgotten.
      await rows.settle('tombstones', { unknown, known: risen, now, seenSince: now - 30 * DAY_MS });
    }
    this.#buried += fresh.length;
    this.#stopped = undefined;
    const ripeAt = now - TOMBSTONE_MS;
    const isRipe = (generation: Generation): boolean => (tombstones.get(generation) ?? now) <= ripeAt;
    const ripe = keys.filter(({ generation }) => !known.has(generation) && isRipe(generation));
    const near = await findNearRecords(rows, ripe);
    const gone = new Set(ripe.map(({ generation }) => generation).filter((each) => !near.has(each)));
    return new Set(generations.filter((generation) => !gone.has(generation)));
  }

  async #assertFew(rows: Rows, fresh: number, looked: number, now: number): Promise<void> {
    // A walk may give tombstones to a hundredth of what it has seen. In a small store 16 strays are not suspicious.
    if (this.#buried + fresh <= Math.max(16, this.#looked * 0.01)) return;
    if (Number((await rows.page('note', ACCEPTED_NOTE)) ?? 0) > now) return;
    this.#looked -= looked;
    this.#stopped = `the rows do not know ${this.#buried + fresh} of the first ${this.#looked + looked} objects of the store: nothing more is deleted; if the database was restored on purpose, run holdfast accept-restore, else restore the right one`;
    throw new StraysSuspicious(this.#stopped);
  }
}

/** One wrong bit in the key of a record makes its object look like a stray. Such an object stays, and `check` names the record. */
async function findNearRecords(rows: Rows, keys: readonly ObjectKey[]): Promise<ReadonlySet<Generation>> {
  const found = new Set<Generation>();
  // Each key is some 250 questions, which SQLite answers before anybody else has a turn.
  for (const few of groupsOf(keys, 4)) {
    for (const each of await findNearOf(rows, few)) found.add(each);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return found;
}

async function findNearOf(rows: Rows, keys: readonly ObjectKey[]): Promise<readonly Generation[]> {
  // A pack differs from its own records in their number, and records outlive a pack that was emptied.
  const near = keys.map(({ spaceKey, generation }) => ({
    generation,
    others: neighboursOf(generation).filter((other) => packOf(other) !== generation),
    spaceKeys: neighboursOf(spaceKey),
    spaceKey,
  }));
  const known = await rows.page(
    'knownGenerations',
    near.flatMap(({ spaceKey, generation, others, spaceKeys }) => [
      ...others.map((other) => ({ spaceKey, generation: other })),
      ...spaceKeys.map((other) => ({ spaceKey: other, generation })),
    ]),
  );
  const isNear = ({ generation, others }: (typeof near)[number]): boolean =>
    [generation, ...others].some((each) => known.has(each));
  return near.filter(isNear).map(({ generation }) => generation);
}

/** From now on objects without a row get tombstones, however many there are. */
export async function acceptStrays(rows: Pick<MetadataStore, 'settle'>, now: number): Promise<void> {
  // Younger objects become old meanwhile.
  await rows.settle('note', { name: ACCEPTED_NOTE, value: String(now + 3 * DAY_MS) });
}

/** A generation's record is durable before its URL is given out: one without a record at this age never gets one. */
export const STRAY_AGE_MS = 24 * 3_600_000;

/** Returns the objects that may be deleted: created at `oldAt` or before, and without a record. List them before this call. */
export async function findStrays(
  listed: readonly ObjectKey[],
  oldAt: number,
  findKnown: FindKnown,
): Promise<readonly ObjectKey[]> {
  const old = listed.filter(({ generation }) => createdAtOf(generation) <= oldAt);
  if (old.length === 0) return [];
  const known = await findKnown(old);
  return old.filter(({ generation }) => !known.has(generation));
}
