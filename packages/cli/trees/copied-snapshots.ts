/** The snapshots that a copy is to add, and those that it takes away. */
import { hostname } from 'node:os';
import {
  type Client,
  type CopiedFrom,
  findReference,
  makeSnapshotId,
  readNames,
  type Snapshot,
} from '@holdfast/client/internal';
import { openSpaceSource } from '@holdfast/files';
import { CliError } from '../cli-error.ts';
import type { JobContext } from '../progress/run-job.ts';
import { explainTreeError, findLocation } from './located-trees.ts';
import { locateTrees, type TreeLocation, warnOfUnreadable } from './reference.ts';

export interface Wanted {
  readonly snapshots: readonly Snapshot[];
  /** `--as` was given: a snapshot of this name, tree and Space is the same, whatever its id. */
  readonly isRenamed: boolean;
  /** Whether `--prune` takes it away. */
  readonly isPruned: (snapshot: Snapshot) => boolean;
  /** lists of the source that cannot be read: what they name is left out */
  readonly unreadable: readonly { readonly hash: string; readonly message: string }[];
}

interface Asked {
  readonly locations: readonly TreeLocation[];
  readonly copiedFrom: CopiedFrom;
  readonly as?: string;
  readonly all?: true;
  readonly prune?: true;
}

/** Reads the names of `source`. Throws CliError, CatalogError, CasError. */
export async function findWanted(source: Client, asked: Asked, context: JobContext): Promise<Wanted> {
  const { locations, copiedFrom, as, all, prune } = asked;
  const none = { isRenamed: false, isPruned: () => false, unreadable: [] };
  const [first] = locations;
  if (first !== undefined && as !== undefined) {
    return { ...none, isRenamed: true, snapshots: [await makeRenamed(source, first, as, asked, context)] };
  }
  const names = await readNames(source, context);
  const { snapshots, unreadable } = names;
  warnOfUnreadable(names, context.progress);
  if (!all) {
    const named = locations.map(({ reference }) => findReference(reference, names).snapshot as Snapshot);
    return { ...none, snapshots: [...new Set(named)].map((snapshot) => copyOf(snapshot, copiedFrom)) };
  }
  if (prune && unreadable.length > 0) {
    throw new CliError(
      'a list of the source cannot be read, so nobody knows what it names; nothing was changed',
    );
  }
  if (prune && snapshots.length === 0) {
    throw new CliError('the source has no name, so --prune would take away every copy; nothing was changed');
  }
  const listed = new Set(snapshots.map(({ id }) => id));
  const isPruned = (snapshot: Snapshot): boolean =>
    prune === true && !snapshot.pinned && !listed.has(snapshot.id) && isFrom(snapshot, copiedFrom);
  const copies = snapshots.map((snapshot) => copyOf(snapshot, copiedFrom));
  return { ...none, snapshots: copies, isPruned, unreadable };
}

/** The one snapshot of `--as`: of a whole snapshot a copy under another name, else a new one. */
async function makeRenamed(
  source: Client,
  location: TreeLocation,
  name: string,
  { copiedFrom }: Asked,
  context: JobContext,
): Promise<Snapshot> {
  const { reference } = location;
  if (reference.kind !== 'hash' && reference.kind !== 'prefix' && location.names.length === 0) {
    const names = await readNames(source, context);
    warnOfUnreadable(names, context.progress);
    const { snapshot } = findReference(reference, names);
    return { ...copyOf(snapshot as Snapshot, copiedFrom), name };
  }
  const [tree] = await locateTrees(source, [location] as const, context);
  const item = await findLocation(openSpaceSource(source, { ...context, patienceMs: 0 }), tree).catch(
    (error: unknown) => {
      throw explainTreeError(error);
    },
  );
  const place = { host: hostname().toWellFormed(), path: location.text.toWellFormed() };
  const made = { id: makeSnapshotId(), name, root: item.hash, time: Date.now(), ...place };
  return { ...made, bytes: item.bytes, copiedFrom };
}

function copyOf(
  { id, name, root, time, host, path, bytes, message }: Snapshot,
  copiedFrom: CopiedFrom,
): Snapshot {
  return { id, name, root, time, host, path, bytes, ...(message ? { message } : {}), copiedFrom };
}

function isFrom({ copiedFrom }: Snapshot, { app, space }: CopiedFrom): boolean {
  return copiedFrom?.app === app && copiedFrom.space === space;
}

export function listLacking(
  { snapshots, isRenamed }: Pick<Wanted, 'snapshots' | 'isRenamed'>,
  listed: readonly Snapshot[],
): readonly Snapshot[] {
  const byId = new Map(listed.map((snapshot) => [snapshot.id, snapshot]));
  if (!isRenamed) return snapshots.filter(({ id }) => !byId.has(id));
  const isThere = (wanted: Snapshot): boolean =>
    listed.some(
      ({ name, root, ...other }) =>
        name === wanted.name &&
        root === wanted.root &&
        isFrom({ name, root, ...other }, wanted.copiedFrom as CopiedFrom),
    );
  // One id names one snapshot: beside the one that it was copied from the copy needs another.
  return snapshots
    .filter((wanted) => !isThere(wanted))
    .map((wanted) => (byId.has(wanted.id) ? { ...wanted, id: makeSnapshotId() } : wanted));
}
