/** References to trees: a hash or its beginning, or a name with or without a day or an id; each with a path. */
import {
  CatalogError,
  type CatalogReader,
  type DomainNames,
  findReference,
  type Hash,
  type ProgressReporter,
  parseReference,
  readNames,
  type TreeReference,
} from '@holdfast/client/internal';
import { InvalidArgumentError } from 'commander';
import { restating } from '../cli-error.ts';
import { type ConnectionFlags, requireAuthorities } from '../connection/space-connection.ts';
import { NAMES_AUTHORITIES } from './names.ts';

export const LOCATION_HELP = 'HASH, NAME, NAME@DAY, NAME@ID or 8 digits of a hash, and perhaps /path';

export interface TreeLocation {
  readonly reference: TreeReference;
  readonly names: readonly Uint8Array[];
  /** as it was given */
  readonly text: string;
}

/** The same once it is known which tree was meant. */
export interface LocatedTree extends TreeLocation {
  readonly root: Hash;
  /** of the snapshot that was named, ms; undefined for a hash */
  readonly timeMs: number | undefined;
}

/** Slashes at the end and twice in a row count as one, and `.` for the directory it is in: no entry has that name. */
export function parseLocation(text: string): TreeLocation {
  const [root = '', ...names] = text.split('/');
  const reference = restating(() => parseReference(root), CatalogError, InvalidArgumentError);
  return { reference, names: parseNames(names), text };
}

export function parseTreePath(text: string): readonly Uint8Array[] {
  const names = parseNames(text.split('/'));
  if (names.length === 0)
    throw new InvalidArgumentError('A path has at least one name; for the whole tree leave it out.');
  return names;
}

function parseNames(names: readonly string[]): Uint8Array[] {
  return names.filter((name) => name !== '' && name !== '.').map((name) => new TextEncoder().encode(name));
}

/** Refuses a token that cannot read names, where names are to be read, before anything is sent. Throws CliError. */
export async function requireReadable(
  flags: ConnectionFlags,
  locations: readonly TreeLocation[],
): Promise<void> {
  if (locations.every(({ reference }) => reference.kind === 'hash')) return;
  await requireAuthorities(flags, NAMES_AUTHORITIES, 'names cannot be read; a full hash can');
}

export interface LocateOptions {
  readonly signal?: AbortSignal | undefined;
  /** Hears of lists that cannot be read: what was meant may stand there. */
  readonly progress: Pick<ProgressReporter, 'warn'>;
}

/** The trees that are meant, in the order of `locations`. Full hashes cost no request. Throws CatalogError, CasError. */
export async function locateTrees<L extends readonly TreeLocation[]>(
  client: CatalogReader,
  locations: L,
  { signal, progress }: LocateOptions,
): Promise<{ [K in keyof L]: LocatedTree }> {
  let names: Pick<DomainNames, 'snapshots' | 'rootRefs'> = { snapshots: [], rootRefs: [] };
  if (locations.some(({ reference }) => reference.kind !== 'hash')) {
    const read = await readNames(client, { signal });
    warnOfUnreadable(read, progress);
    names = read;
  }
  return locations.map((location) => {
    const { hash, snapshot } = findReference(location.reference, names);
    return { ...location, root: hash, timeMs: snapshot?.time };
  }) as { [K in keyof L]: LocatedTree };
}

export function warnOfUnreadable({ unreadable }: DomainNames, progress: LocateOptions['progress']): void {
  for (const { hash, message } of unreadable) {
    progress.warn(`a list of snapshots cannot be read, and is left as it is: ${hash}: ${message}`);
  }
}
