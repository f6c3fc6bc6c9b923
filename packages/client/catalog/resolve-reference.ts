/** From what a person writes to the root of a tree: a hash, a name, a name with a day or an id, the beginning of a hash. */

import { type Hash, isHash } from '@holdfast/protocol';
import { checkArray, checkObject } from '../arguments.ts';
import { CatalogError } from './catalog-error.ts';
import { isSnapshotName, type Snapshot } from './catalog-format.ts';
import {
  findSnapshot,
  findSnapshotsOf,
  formatDay,
  isSnapshotIdPrefix,
  joinSome,
  nameSome,
  PREFIX_DIGITS_MIN,
} from './find-snapshot.ts';
import { type CatalogOptions, type CatalogReader, type DomainNames, readNames } from './read-catalogs.ts';

export type TreeReference =
  | { readonly kind: 'hash'; readonly hash: Hash }
  /** the latest of the name */
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'snapshot'; readonly name: string; readonly idPrefix: string }
  /** the last of that day, in UTC */
  | { readonly kind: 'day'; readonly name: string; readonly day: string }
  | { readonly kind: 'prefix'; readonly hashPrefix: string };

export interface ResolvedReference {
  readonly hash: Hash;
  /** the snapshot that was named; undefined for a hash or the beginning of one */
  readonly snapshot: Snapshot | undefined;
}

const HASH_PREFIX = /^[0-9a-f]{8,63}$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** Throws CatalogError INVALID_ARGUMENT for what nothing can be called. */
export function parseReference(text: string): TreeReference {
  if (typeof text !== 'string') {
    throw new CatalogError('INVALID_ARGUMENT', 'a reference must be a string: a hash, or a name');
  }
  const isWhole: boolean = isHash(text);
  if (isWhole) return { kind: 'hash', hash: text };
  if (HASH_PREFIX.test(text)) return { kind: 'prefix', hashPrefix: text };
  if (isSnapshotName(text)) return { kind: 'name', name: text };
  const at = text.indexOf('@');
  const [name, rest] = at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
  if (at !== -1 && isSnapshotName(name)) {
    if (isSnapshotIdPrefix(rest)) return { kind: 'snapshot', name, idPrefix: rest };
    if (DAY.test(rest) && isDay(rest)) return { kind: 'day', name, day: rest };
    throw new CatalogError(
      'INVALID_ARGUMENT',
      `${JSON.stringify(rest)} names no snapshot: after ${name}@ comes a day such as 2026-11-22, or an id of 16 hexadecimal digits, of which 8 suffice`,
    );
  }
  throw new CatalogError(
    'INVALID_ARGUMENT',
    `${JSON.stringify(text)} is neither a hash (64 lowercase hexadecimal characters, or the first ${PREFIX_DIGITS_MIN} or more) nor a name, NAME@DAY or NAME@ID`,
  );
}

/** A text in the form of a date may be none, such as the 30th of February. */
function isDay(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** Pure. Throws CatalogError NOT_FOUND or AMBIGUOUS, which name what was perhaps meant. */
export function findReference(
  reference: TreeReference,
  names: Pick<DomainNames, 'snapshots' | 'rootRefs'>,
): ResolvedReference {
  const call = { name: 'findReference', requestOperation: 'listRootRefs' } as const;
  checkObject(call, 'the reference', reference);
  checkObject(call, 'the names', names);
  const { snapshots } = names;
  checkArray(call, 'the snapshots', snapshots);
  switch (reference.kind) {
    case 'hash':
      return { hash: reference.hash, snapshot: undefined };
    case 'name':
      return resolved(findSnapshotsOf(snapshots, reference.name).at(-1));
    case 'snapshot':
      return resolved(findSnapshot(findSnapshotsOf(snapshots, reference.name), reference.idPrefix));
    case 'day':
      return resolved(findOfDay(findSnapshotsOf(snapshots, reference.name), reference.name, reference.day));
    case 'prefix':
      return { hash: findByPrefix(reference.hashPrefix, names), snapshot: undefined };
  }
}

/** The root that `text` names; a full hash costs no request. `onNames` hears what was read. Throws CatalogError, CasError. */
export async function resolveReference(
  client: CatalogReader,
  text: string,
  options: CatalogOptions & { readonly onNames?: ((names: DomainNames) => void) | undefined } = {},
): Promise<ResolvedReference> {
  const reference = parseReference(text);
  if (reference.kind === 'hash') return { hash: reference.hash, snapshot: undefined };
  const names = await readNames(client, options);
  options.onNames?.(names);
  return findReference(reference, names);
}

function resolved(snapshot: Snapshot | undefined): ResolvedReference {
  if (snapshot === undefined) throw new TypeError('a name has at least one snapshot');
  return { hash: snapshot.root, snapshot };
}

function findOfDay(snapshots: readonly Snapshot[], name: string, day: string): Snapshot {
  const found = snapshots.filter(({ time }) => formatDay(time) === day).at(-1);
  if (found !== undefined) return found;
  const before = snapshots.filter(({ time }) => formatDay(time) < day).at(-1);
  const after = snapshots.find(({ time }) => formatDay(time) > day);
  const near = [before, after].filter((snapshot) => snapshot !== undefined);
  throw new CatalogError(
    'NOT_FOUND',
    `${name} has no snapshot of ${day} (UTC); the nearest ${near.length === 1 ? 'is' : 'are'} ${nameSome(near)}`,
  );
}

function findByPrefix(
  prefix: string,
  { snapshots, rootRefs }: Pick<DomainNames, 'snapshots' | 'rootRefs'>,
): Hash {
  const hashes = new Set([...snapshots.map(({ root }) => root), ...rootRefs.map(({ hash }) => hash)]);
  const fits = [...hashes].filter((hash) => hash.startsWith(prefix));
  const [only] = fits;
  if (only !== undefined && fits.length === 1) return only;
  if (fits.length > 1) {
    throw new CatalogError(
      'AMBIGUOUS',
      `${fits.length} trees begin with ${prefix}: ${joinSome(fits, fits.length)}`,
    );
  }
  const ofId = snapshots.find(({ id }) => id.startsWith(prefix));
  const advice =
    ofId === undefined
      ? suggestHashes([...hashes], prefix)
      : `it is the id of a snapshot: write ${ofId.name}@${ofId.id}`;
  throw new CatalogError(
    'NOT_FOUND',
    `no snapshot and no root ref of this refDomain begins with ${prefix}; ${advice}`,
  );
}

/** Those that begin alike for longest. */
function suggestHashes(hashes: readonly Hash[], prefix: string): string {
  if (hashes.length === 0) return 'there are none';
  const alike = (hash: Hash): number => {
    let length = 0;
    while (length < prefix.length && hash[length] === prefix[length]) length += 1;
    return length;
  };
  const near = [...hashes].sort((a, b) => alike(b) - alike(a) || (a < b ? -1 : 1));
  return `the nearest ${near.length === 1 ? 'is' : 'are'} ${joinSome(near, near.length)}`;
}
