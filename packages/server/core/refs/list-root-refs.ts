/** listRootRefs: one page of a revision-stable walk (docs/api.md, listRootRefs). */
import { ApiError, type RootRefPage } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import type { Space } from '../model.ts';
import { formatRootRefCursor, parseRootRefCursor } from './root-ref-cursor.ts';

export interface RootRefsQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** Throws INVALID_REQUEST for a cursor that is not ours, CONFLICT for one older than the history kept. */
export async function listRootRefs(
  core: Core,
  space: Space,
  refDomain: string,
  query: RootRefsQuery,
): Promise<RootRefPage> {
  const { limit, cursor } = query;
  const position =
    cursor === undefined ? undefined : parseRootRefCursor(core.signer, space, refDomain, cursor);
  // One balance more than the page holds tells whether another page follows.
  const found = await core.metadata.findBalancesAt(space, refDomain, {
    revision: position?.revision ?? 'current',
    after: position?.after,
    limit: limit + 1,
  });
  if (found === undefined) {
    throw new ApiError(
      'CONFLICT',
      'cursor: older than the history this server keeps; begin the walk again without a cursor',
    );
  }
  const { revision } = found;
  const items = found.items.slice(0, limit).map(({ hash, balance }) => ({ hash, refCount: balance }));
  const last = items.at(-1);
  const hasMore = found.items.length > limit && last !== undefined;
  const nextCursor = hasMore
    ? formatRootRefCursor(core.signer, space, refDomain, { revision, after: last.hash })
    : null;
  return { refDomain, revision, items, nextCursor };
}
