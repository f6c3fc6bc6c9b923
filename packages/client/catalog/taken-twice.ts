/** Catalogs whose balance two writers took: the server lets both pass where another domain holds them too. The earlier revision wins. */
import { type Hash, ROOT_REF_DELTA_MAX, type RootRefItem } from '@holdfast/protocol';
import type { Client } from '../client.ts';
import { CasError } from '../errors.ts';
import { type Catalog, isCatalogContentType, mergeSnapshots } from './catalog-format.ts';
import {
  type CatalogOptions,
  type CatalogReader,
  type DomainNames,
  listRootRefs,
  readNames,
  type StandingCatalog,
} from './read-catalogs.ts';

interface Committed {
  readonly revision: number;
  readonly catalog: Hash | undefined;
  readonly replaced: readonly Hash[];
}

/** Every catalog is unique, so its hash names the commit: sent again, it is the same one. */
export function nameCommit(catalog: string): string {
  return `catalog-${catalog}`;
}

export function takeWhole({ hash, refCount }: Pick<StandingCatalog, 'hash' | 'refCount'>): [Hash, number] {
  return [hash, -Math.min(refCount, ROOT_REF_DELTA_MAX)];
}

/** The balances below 0 of catalogs; what else has such a balance is its owner's. */
export async function findOverdrawn(
  client: CatalogReader,
  { rootRefs }: DomainNames,
  options: CatalogOptions,
): Promise<readonly RootRefItem[]> {
  const found: RootRefItem[] = [];
  for (const item of rootRefs) {
    if (item.refCount < 0 && (await isCatalog(client, item.hash, options))) found.push(item);
  }
  return found;
}

async function isCatalog(
  client: CatalogReader,
  hash: Hash,
  { memory, signal }: CatalogOptions,
): Promise<boolean> {
  const known = memory?.get(hash);
  if (known !== undefined) return known !== 'other';
  try {
    const { metadata } = await client.readMetadata(hash, { signal });
    return isCatalogContentType(metadata.contentType);
  } catch (error) {
    // A node that is lost cannot be brought back here.
    if (error instanceof CasError && error.code === 'NOT_FOUND') return false;
    throw error;
  }
}

/** The names as they are without what `lost` alone lists; the same where it does not stand any more. */
export function withoutCatalog(names: DomainNames, lost: Hash): DomainNames {
  const left = names.catalogs.filter(({ hash }) => hash !== lost);
  if (left.length === names.catalogs.length) return names;
  return { ...names, snapshots: mergeSnapshots(left.map(({ catalog }) => catalog.snapshots)) };
}

/** The catalog of `commit` if another writer took what it took, and came earlier. */
export async function findLost(
  client: CatalogReader & Pick<Client, 'updateRootRefs'>,
  { catalog, revision, replaced }: Committed,
  before: DomainNames,
  options: CatalogOptions,
): Promise<Hash | undefined> {
  if (catalog === undefined || replaced.length === 0) return undefined;
  // Nobody committed between the reading and this commit.
  if (revision === before.revision + 1) return undefined;
  const list = await listRootRefs(client, options, false);
  const overdrawn = list?.rootRefs.filter(({ hash, refCount }) => refCount < 0 && replaced.includes(hash));
  if (overdrawn === undefined || overdrawn.length === 0) return undefined;
  const twice = new Set(overdrawn.map(({ hash }) => hash));
  const { catalogs } = await readNames(client, options);
  for (const { hash, catalog: other } of catalogs) {
    if (hash === catalog || !other.previous.some((each) => twice.has(each))) continue;
    const theirs = await findRevision(client, hash, other, before, options);
    // A writer that does not know gives way.
    if (theirs === undefined || theirs < revision) return catalog;
  }
  return undefined;
}

/** The commit that made `hash` stand, sent once more: the server then tells its revision. Undefined where it was another request. */
async function findRevision(
  client: CatalogReader & Pick<Client, 'updateRootRefs'>,
  hash: Hash,
  { previous }: Catalog,
  before: DomainNames,
  options: CatalogOptions,
): Promise<number | undefined> {
  const counts = new Map(before.rootRefs.map((item) => [item.hash, item.refCount]));
  const taken = previous.map((each) => takeWhole({ hash: each, refCount: counts.get(each) ?? 1 }));
  const below = await findOverdrawn(client, before, options);
  const overdrawn = below.map(({ hash: each, refCount }) => [each, -refCount] as const);
  const { signal } = options;
  for (const restored of [overdrawn, []]) {
    const changes = Object.fromEntries([...taken, [hash, 1] as const, ...restored]);
    try {
      return (await client.updateRootRefs({ requestId: nameCommit(hash), changes }, { signal })).revision;
    } catch (error) {
      if (!(error instanceof CasError && (error.status === 404 || error.status === 409))) throw error;
    }
  }
  return undefined;
}
