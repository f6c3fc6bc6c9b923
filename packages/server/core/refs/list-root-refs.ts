/** listRootRefs: one page of a revision-stable walk (docs/api.md, listRootRefs). */
import { ApiError, type RootRefPage } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import type { Space } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { isWalkNoted } from '../root-ref-walks.ts';
import { StoreUnavailable } from '../store-failure.ts';
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
  const page = {
    ...{ revision: position?.revision ?? ('current' as const), after: position?.after },
    limit: limit + 1,
  };
  let found = await core.metadata.findBalancesAt(space, refDomain, page);
  const walkedUntil = position === undefined && (found?.items.length ?? 0) > limit && found?.walkedUntil;
  if (typeof walkedUntil === 'number' && !isWalkNoted(walkedUntil, await core.metadata.readClock())) {
    // A commit between the note and the page does no harm, one between the page and the note would.
    if (await tryNote(core, space, refDomain))
      found = await core.metadata.findBalancesAt(space, refDomain, page);
  }
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

/** On a full disk, which takes no commits either, a cursor without a note is as good. */
async function tryNote(core: Core, space: Space, domain: string): Promise<boolean> {
  try {
    await core.metadata.transact(space, noteWalk, domain);
    return true;
  } catch (error) {
    if (error instanceof StoreUnavailable && core.freeSpace?.isLowFor(0)) return false;
    throw error;
  }
}

export async function noteWalk(tx: SpaceTransaction, domain: string): Promise<void> {
  await tx.noteWalk(domain);
}
