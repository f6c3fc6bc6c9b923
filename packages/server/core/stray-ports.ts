/** Ports to the rows for the walk over all objects of the store of bytes (core/stray-watch.ts). */
import type { Awaitable } from './awaitable.ts';
import type { Generation, ObjectKey } from './model.ts';

/** Finds the generations among `keys` that have a record: a page of `knownGenerations`. */
export type FindKnown = (keys: readonly ObjectKey[]) => Awaitable<ReadonlySet<Generation>>;

export interface Note {
  readonly name: string;
  readonly value: string | number;
}

/** PostgreSQL keeps no NUL in a text, and no engine half a surrogate pair. */
export function assertNote({ name, value }: Note): void {
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

/** The state that the walk over all objects keeps with the rows. */
export interface WalkKeeper {
  /** Resolves with the objects that must stay; rejects if the walk must stop. */
  findKept: FindKnown;
  /** How far the walk has come, for a process that goes on with it; undefined: it begins, or has ended. */
  readPlace(): Awaitable<string | undefined>;
  notePlace(place: string | undefined): Promise<void>;
}
