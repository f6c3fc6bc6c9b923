/** Finding snapshots by what people write: names, ids and the beginnings of ids. Pure; errors name what was perhaps meant. */
import { countEdits } from '@holdfast/protocol';
import { CatalogError } from './catalog-error.ts';
import { isSnapshotName, type Snapshot } from './catalog-format.ts';

/** Digits of an id that suffice. */
export const PREFIX_DIGITS_MIN = 8;
const CANDIDATES_NAMED_MAX = 5;
const ID_PREFIX = /^[0-9a-f]{8,16}$/;

/** Whether it is an id, or enough of its beginning. */
export function isSnapshotIdPrefix(text: string): boolean {
  return typeof text === 'string' && ID_PREFIX.test(text);
}

/** Throws CatalogError INVALID_ARGUMENT. */
export function checkSnapshotName(name: string): string {
  if (isSnapshotName(name)) return name;
  throw new CatalogError(
    'INVALID_ARGUMENT',
    `${JSON.stringify(name)} is no name: it has 1 to 128 letters, digits, ".", "_" and "-", begins with a letter or digit, and is not 8 to 64 hexadecimal digits`,
  );
}

/** Throws CatalogError INVALID_ARGUMENT. */
export function checkSnapshotId(idPrefix: string): string {
  if (isSnapshotIdPrefix(idPrefix)) return idPrefix;
  throw new CatalogError(
    'INVALID_ARGUMENT',
    `${JSON.stringify(idPrefix)} is no id of a snapshot: it has 16 hexadecimal digits, of which ${PREFIX_DIGITS_MIN} suffice`,
  );
}

/** The one snapshot whose id begins so. Throws CatalogError INVALID_ARGUMENT, NOT_FOUND, AMBIGUOUS. */
export function findSnapshot(snapshots: readonly Snapshot[], idPrefix: string): Snapshot {
  checkSnapshotId(idPrefix);
  const fits = snapshots.filter(({ id }) => id.startsWith(idPrefix));
  const [only] = fits;
  if (only !== undefined && fits.length === 1) return only;
  if (only !== undefined) {
    throw new CatalogError('AMBIGUOUS', `${fits.length} snapshots begin with ${idPrefix}: ${nameSome(fits)}`);
  }
  const newest =
    snapshots.length === 0 ? 'there is none' : `the newest are ${nameSome([...snapshots].reverse())}`;
  throw new CatalogError('NOT_FOUND', `no snapshot has the id ${idPrefix}; ${newest}`);
}

/** Those kept under `name`, by time; at least one. Throws CatalogError INVALID_ARGUMENT, NOT_FOUND. */
export function findSnapshotsOf(snapshots: readonly Snapshot[], name: string): readonly Snapshot[] {
  checkSnapshotName(name);
  const fits = snapshots.filter((snapshot) => snapshot.name === name);
  if (fits.length > 0) return fits;
  const names = [...new Set(snapshots.map((snapshot) => snapshot.name))];
  throw new CatalogError('NOT_FOUND', `nothing is kept under the name ${name}; ${suggestNames(names, name)}`);
}

function suggestNames(names: readonly string[], wanted: string): string {
  if (names.length === 0) return 'there is no name yet in this refDomain';
  const distance = (name: string): number => countEdits(name.toLowerCase(), wanted.toLowerCase());
  const near = [...names].sort((a, b) => distance(a) - distance(b) || (a < b ? -1 : 1));
  const shown = near.slice(0, CANDIDATES_NAMED_MAX);
  return `${shown.length === 1 ? 'there is' : 'the nearest are'} ${joinSome(shown, near.length)}`;
}

/** As people refer to them: `NAME@ID`, with the day. */
export function nameSome(snapshots: readonly Snapshot[]): string {
  const shown = snapshots
    .slice(0, CANDIDATES_NAMED_MAX)
    .map(({ name, id, time }) => `${name}@${id} (${formatDay(time)})`);
  return joinSome(shown, snapshots.length);
}

export function joinSome(shown: readonly string[], count: number): string {
  const kept = shown.slice(0, CANDIDATES_NAMED_MAX);
  return count > kept.length ? `${kept.join(', ')} and ${count - kept.length} more` : kept.join(', ');
}

/** The day in UTC, `2026-11-22`. */
export function formatDay(time: number): string {
  const date = new Date(time);
  // A number that no date can be is shown as it is.
  return Number.isNaN(date.getTime())
    ? String(time)
    : date.toISOString().slice(0, date.toISOString().indexOf('T'));
}
