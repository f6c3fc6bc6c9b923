/** Storing a catalog: its index nodes first, where it has more roots than one node can refer to. */
import { type Hash, LEASE_DURATION_MS_MIN, NODE_REFS_MAX } from '@holdfast/protocol';
import type { Client } from '../client.ts';
import { mapInOrder } from '../map-in-order.ts';
import type { CallOptions } from '../operations.ts';
import {
  CATALOG_CONTENT_TYPE,
  CATALOG_INDEX_CONTENT_TYPE,
  type Catalog,
  encodeCatalog,
  listRoots,
} from './catalog-format.ts';

/** As short as the service allows, so that a replaced catalog does not keep forgotten trees for long. */
const CATALOG_LEASE_MS = LEASE_DURATION_MS_MIN;

/** `unready`: roots (or index nodes that a collection took meanwhile) without which the catalog cannot be ready. */
export type StoredCatalog =
  | { readonly state: 'ready'; readonly hash: Hash }
  | { readonly state: 'waiting'; readonly unready: readonly Hash[] };

/** Makes the catalog ready, if all it refers to is. Throws CatalogError TOO_LARGE, CasError. */
export async function storeCatalog(
  client: Pick<Client, 'putNode'>,
  catalog: Catalog,
  { signal }: CallOptions,
): Promise<StoredCatalog> {
  const content = encodeCatalog(catalog);
  const put = (contentType: string, refs: readonly Hash[], bytes: Uint8Array) =>
    client.putNode({ contentType, refs, content: bytes }, { leaseDurationMs: CATALOG_LEASE_MS, signal });
  const roots = listRoots(catalog.snapshots);
  const refs: Hash[] = [];
  const unready: Hash[] = [];
  if (roots.length <= NODE_REFS_MAX) refs.push(...roots);
  else {
    const groups = Array.from({ length: Math.ceil(roots.length / NODE_REFS_MAX) }, (_, index) =>
      roots.slice(index * NODE_REFS_MAX, (index + 1) * NODE_REFS_MAX),
    );
    const indexes = mapInOrder(groups, 4, (group) =>
      put(CATALOG_INDEX_CONTENT_TYPE, group, new Uint8Array()),
    );
    for await (const index of indexes) {
      refs.push(index.hash);
      if (index.state === 'validated_awaiting_children') unready.push(...index.childHashes);
    }
  }
  if (unready.length > 0) return { state: 'waiting', unready };
  const stored = await put(CATALOG_CONTENT_TYPE, refs, content);
  return stored.state === 'ready'
    ? { state: 'ready', hash: stored.hash }
    : { state: 'waiting', unready: stored.childHashes };
}
