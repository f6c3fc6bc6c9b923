/** Adding, pinning and forgetting snapshots. Each is one change of the list, tried again while other writers are faster. */
import { checkArray, checkNumber, checkObject } from '../arguments.ts';
import { systemClock } from '../deadline.ts';
import { CatalogError } from './catalog-error.ts';
import {
  CATALOG_CONTENT_TYPE,
  checkMessage,
  encodeCatalog,
  parseCatalog,
  randomHex,
  type Snapshot,
} from './catalog-format.ts';
import {
  type CatalogWriter,
  type ChangedNames,
  type ChangeOptions,
  changeNames,
  type NamesCommit,
} from './change-names.ts';
import { checkSnapshotName, findSnapshot, findSnapshotsOf } from './find-snapshot.ts';
import type { DomainNames } from './read-catalogs.ts';
import { decideRetention, type JudgedSnapshot, type Retention, type RetentionPolicy } from './retention.ts';

export function makeSnapshotId(): string {
  return randomHex(8);
}

export type NewSnapshot = Omit<Snapshot, 'id' | 'time'> & {
  /** Keep it where it outlives the process, and an interrupted call can be repeated without adding a second snapshot. */
  readonly id?: string | undefined;
};

export interface AddedSnapshot {
  readonly snapshot: Snapshot;
  /** Undefined when a snapshot of this id was listed already, by an earlier call. */
  readonly commit: NamesCommit | undefined;
  readonly before: DomainNames;
}

/** Lists the tree `root`, which must be ready, under a name. Throws CatalogError, CasError. */
export async function addSnapshot(
  client: CatalogWriter,
  snapshot: NewSnapshot,
  options: ChangeOptions = {},
): Promise<AddedSnapshot> {
  const call = { name: 'addSnapshot', requestOperation: 'updateRootRefs' } as const;
  checkObject(call, 'the snapshot', snapshot);
  checkSnapshotName(snapshot.name);
  const id = snapshot.id ?? makeSnapshotId();
  const clock = options.clock ?? systemClock;
  const { name, root, host, path, bytes, pinned } = snapshot;
  const message = checkMessage(snapshot.message);
  const entryNow = (): Snapshot => ({
    ...{ id, name, root, time: clock.now(), host, path, bytes },
    ...(pinned ? { pinned } : {}),
    ...(message ? { message } : {}),
  });
  let added = checkSnapshot(entryNow());
  const { before, commit } = await changeNames(
    client,
    (snapshots) => {
      const listed = snapshots.find((other) => other.id === id);
      added = listed ?? entryNow();
      return listed === undefined ? [...snapshots, added] : undefined;
    },
    options,
  );
  return { snapshot: added, commit, before };
}

/** A snapshot that readers refuse would make the whole list unreadable, so it is not written. Throws CatalogError INVALID_ARGUMENT. */
function checkSnapshot(snapshot: Snapshot): Snapshot {
  try {
    const content = encodeCatalog({ random: '', previous: [], snapshots: [snapshot] });
    parseCatalog(CATALOG_CONTENT_TYPE, content);
    return snapshot;
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error;
    throw new CatalogError('INVALID_ARGUMENT', `this snapshot cannot be listed: ${error.message}`);
  }
}

export interface ChangedSnapshot extends ChangedNames {
  readonly snapshot: Snapshot;
}

/** No policy forgets a pinned snapshot. `idPrefix`: its id, or the first 8 digits or more. Throws CatalogError, CasError. */
export async function setPinned(
  client: CatalogWriter,
  idPrefix: string,
  isPinned: boolean,
  options: ChangeOptions = {},
): Promise<ChangedSnapshot> {
  let found: Snapshot | undefined;
  const changed = await changeNames(
    client,
    (snapshots) => {
      const before = findSnapshot(snapshots, idPrefix);
      const { pinned, ...rest } = before;
      const after: Snapshot = isPinned ? { ...rest, pinned: true } : rest;
      found = after;
      if (Boolean(pinned) === isPinned) return undefined;
      return snapshots.map((snapshot) => (snapshot.id === before.id ? after : snapshot));
    },
    options,
  );
  return { ...changed, snapshot: found as Snapshot };
}

/** Selects what to forget: every snapshot of a name that is not pinned, or those that no policy keeps, or these ids. */
export type Forgetting =
  | { readonly name: string; readonly all: true }
  | { readonly name: string; readonly policy: RetentionPolicy }
  | { readonly idPrefixes: readonly string[] };

export interface Forgotten extends Retention, ChangedNames {}

/** Pure. Throws CatalogError, PINNED among them. */
export function decideForgetting(
  snapshots: readonly Snapshot[],
  forgetting: Forgetting,
  now: number,
): Retention {
  const call = { name: 'decideForgetting', requestOperation: 'listRootRefs' } as const;
  checkArray(call, 'the snapshots', snapshots);
  checkObject(call, 'what is to be forgotten', forgetting);
  checkNumber(call, 'now', now, 0);
  if ('idPrefixes' in forgetting) return decideByIds(snapshots, forgetting.idPrefixes);
  const ofName = findSnapshotsOf(snapshots, forgetting.name);
  if ('policy' in forgetting) return decideRetention(ofName, forgetting.policy, now);
  return {
    kept: ofName.filter(({ pinned }) => pinned).map((snapshot) => ({ ...snapshot, reasons: ['pinned'] })),
    forgotten: ofName.filter(({ pinned }) => !pinned).map((snapshot) => ({ ...snapshot, reasons: ['all'] })),
  };
}

function decideByIds(snapshots: readonly Snapshot[], idPrefixes: readonly string[]): Retention {
  const named = new Map<string, JudgedSnapshot>();
  for (const idPrefix of idPrefixes) {
    const snapshot = findSnapshot(snapshots, idPrefix);
    if (snapshot.pinned) {
      throw new CatalogError(
        'PINNED',
        `snapshot ${snapshot.id} of ${snapshot.name} is pinned; unpin it first. Nothing was forgotten`,
      );
    }
    named.set(snapshot.id, { ...snapshot, reasons: ['named'] });
  }
  const names = new Set([...named.values()].map(({ name }) => name));
  const kept = snapshots
    .filter(({ id, name }) => names.has(name) && !named.has(id))
    .map((snapshot) => ({ ...snapshot, reasons: ['not named'] }));
  return { kept, forgotten: [...named.values()] };
}

/** Decides again whenever another writer was faster, so that a snapshot that was pinned meanwhile stays. Throws CatalogError, CasError. */
export async function forgetSnapshots(
  client: CatalogWriter,
  forgetting: Forgetting,
  options: ChangeOptions = {},
): Promise<Forgotten> {
  const call = { name: 'forgetSnapshots', requestOperation: 'updateRootRefs' } as const;
  checkObject(call, 'what is to be forgotten', forgetting);
  const clock = options.clock ?? systemClock;
  let retention: Retention = { kept: [], forgotten: [] };
  const changed = await changeNames(
    client,
    (snapshots) => {
      retention = decideForgetting(snapshots, forgetting, clock.now());
      const gone = new Set(retention.forgotten.map(({ id }) => id));
      return gone.size === 0 ? undefined : snapshots.filter(({ id }) => !gone.has(id));
    },
    options,
  );
  return { ...retention, ...changed };
}
