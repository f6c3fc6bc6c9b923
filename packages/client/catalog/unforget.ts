/** Takes a forgotten snapshot back from an earlier catalog, as long as no collection has taken that catalog. */
import { type Hash, LEASE_DURATION_MS_MIN } from '@holdfast/protocol';
import { CasError } from '../errors.ts';
import { RottenNodeError } from '../rotten-node.ts';
import { CatalogError } from './catalog-error.ts';
import type { Catalog, Snapshot } from './catalog-format.ts';
import { type CatalogWriter, type ChangeOptions, changeNames } from './change-names.ts';
import { checkSnapshotId, findSnapshot } from './find-snapshot.ts';
import {
  type CatalogOptions,
  type CatalogReader,
  type DomainNames,
  readCatalog,
  readNames,
} from './read-catalogs.ts';
import type { JudgedSnapshot } from './retention.ts';
import type { ChangedSnapshot } from './snapshots.ts';

/** More lists to look at, besides those that the current lists replaced: there is no current list once the last snapshot is forgotten. */
interface UnforgetOptions extends ChangeOptions {
  /** hashes of catalogs */
  readonly former?: readonly Hash[] | undefined;
  /** snapshots that the caller remembers */
  readonly known?: readonly Snapshot[] | undefined;
}

/**
 * Lists a forgotten snapshot again while a former list with it, and its tree, are there. Throws CasError, and CatalogError
 * INVALID_ARGUMENT, NOT_FOUND, AMBIGUOUS, COLLECTED.
 */
export async function unforgetSnapshot(
  client: CatalogWriter,
  idPrefix: string,
  options: UnforgetOptions = {},
): Promise<ChangedSnapshot> {
  checkSnapshotId(idPrefix);
  const withMemory = { ...options, memory: options.memory ?? new Map() };
  const names = await readNames(client, withMemory);
  const atHand = [names.snapshots, options.known ?? []].find((snapshots) =>
    snapshots.some(({ id }) => id.startsWith(idPrefix)),
  );
  const found: Partial<JudgedSnapshot> & Snapshot =
    atHand === undefined
      ? await findFormer(client, names, idPrefix, withMemory)
      : findSnapshot(atHand, idPrefix);
  // A list has no field for what a policy said of it.
  const { reasons, ...snapshot } = found;
  await requireReady(client, snapshot, options);
  const changed = await changeNames(
    client,
    (snapshots) => (snapshots.some(({ id }) => id === snapshot.id) ? undefined : [...snapshots, snapshot]),
    withMemory,
  );
  return { ...changed, snapshot };
}

async function findFormer(
  client: CatalogReader,
  names: DomainNames,
  idPrefix: string,
  options: UnforgetOptions,
): Promise<Snapshot> {
  const met = new Set<Hash>();
  const queue = [...names.catalogs.flatMap(({ catalog }) => catalog.previous), ...(options.former ?? [])];
  for (const hash of queue) {
    if (met.has(hash)) continue;
    if (met.size === 1_000) break;
    met.add(hash);
    const catalog = await findCatalog(client, hash, options);
    if (catalog?.snapshots.some(({ id }) => id.startsWith(idPrefix))) {
      return findSnapshot(catalog.snapshots, idPrefix);
    }
    // A list is walked as it grows: the newest former lists come first.
    queue.push(...(catalog?.previous ?? []));
  }
  throw new CatalogError(
    'NOT_FOUND',
    `no list that is still there has a snapshot ${idPrefix}: it was never made in this refDomain, or a collection took the list it was forgotten from`,
  );
}

/** Undefined for one that is gone or cannot be read: another list may have the snapshot too. */
async function findCatalog(
  client: CatalogReader,
  hash: Hash,
  options: CatalogOptions,
): Promise<Catalog | undefined> {
  try {
    const catalog = await readCatalog(client, hash, options);
    return catalog === 'other' ? undefined : catalog;
  } catch (error) {
    const isGone = error instanceof CasError && error.code === 'NOT_FOUND';
    if (isGone || error instanceof CatalogError || error instanceof RottenNodeError) return undefined;
    throw error;
  }
}

/** The lease also keeps the root until the new list refers to it. */
async function requireReady(
  client: CatalogWriter,
  { root, id, name }: Snapshot,
  { signal }: CatalogOptions,
): Promise<void> {
  const lease = await client.leaseNode(root, { leaseDurationMs: LEASE_DURATION_MS_MIN }, { signal });
  if (lease.state === 'ready') return;
  throw new CatalogError(
    'COLLECTED',
    `the tree of ${name}@${id}, ${root}, is not there any more: a collection took it, or its bytes are damaged; push it again if its source is still there`,
  );
}
