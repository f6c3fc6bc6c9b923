/** What rows keep for the walk over all objects of the store of bytes (core/stray-watch.ts). */
import type { Awaitable } from './awaitable.ts';
import type { Generation, ObjectKey } from './model.ts';

/** Which generations among `keys` have a record: `findKnownGenerations`. */
export type FindKnown = (keys: readonly ObjectKey[]) => Awaitable<ReadonlySet<Generation>>;

export interface StrayPort {
  /** When each of them was first found without a record, ms. */
  findTombstones(generations: readonly Generation[]): Awaitable<ReadonlyMap<Generation, number>>;
  /**
   * Notes that a walk found them without a record: the first such instant stays. Forgets that of those that have one again, and
   * whatever no walk has come across for long. A generation in both lists has a record. Durable when it resolves.
   */
  settleTombstones(page: TombstonePage): Promise<void>;
  /**
   * Raises the revisions of all domains by `step`, also what a domain without a commit begins at, and makes no page of an earlier
   * revision readable. Balances and commits stay. Call while no server runs.
   */
  raiseRevisions(step: number): Promise<void>;
  /** A short text that is kept with the rows under a name, as it was set last. */
  findNote(name: string): Awaitable<string | undefined>;
  /** Replaces the earlier one. Any text that `assertNote` takes, also an empty one. Durable when it resolves. */
  setNote(name: string, value: string): Promise<void>;
  /** As `setNote`, of a whole number: a larger one stays. Where several servers share the rows, this is one step. */
  raiseNote(name: string, value: number): Promise<void>;
}

/** PostgreSQL keeps no NUL in a text, and no engine half a surrogate pair. */
export function assertNote(name: string, value: string): void {
  const text = `${name} ${value}`;
  if (text.includes('\0') || !text.isWellFormed()) throw new RangeError('a note is text without NUL');
}

export interface TombstonePage {
  /** they have no record */
  readonly unknown: readonly Generation[];
  /** they have one */
  readonly known: readonly Generation[];
  readonly now: number;
  /** tombstones that no walk has come across since then go: their objects are gone */
  readonly seenSince: number;
}

/** What the walk over all objects keeps with the rows. */
export interface WalkKeeper {
  /** Which of the objects must stay; rejects if the walk is to stop. */
  findKept: FindKnown;
  /** How far the walk has come, for a process that goes on with it; undefined: it begins, or has ended. */
  readPlace(): Awaitable<string | undefined>;
  notePlace(place: string | undefined): Promise<void>;
}
