/** listRootRefs: one page of a revision-stable walk (docs/api.md, listRootRefs). */
import { ApiError, bytesToHash, type Hash, hashToBytes, type RootRefPage } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import type { Space } from '../model.ts';
import type { Signer, SpaceTransaction } from '../ports.ts';
import { isWalkNoted } from '../root-ref-walks.ts';
import { StoreUnavailable } from '../store-failure.ts';

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

/** The signed listRootRefs cursor: where a walk goes on and which revision it shows, for one App, Space and domain. */
interface RootRefPosition {
  readonly revision: number;
  readonly after: Hash;
}

const VERSION = 1;
/** Where each field begins, after the version. */
const AT = { revision: 1, hash: 9, signature: 41, end: 73 } as const;

/** Ids hold no control characters and a domain is plain ASCII, so NUL keeps the fields apart. */
function signedMessage(space: Space, refDomain: string, payload: Buffer): string {
  return `${space.appId}\0${space.spaceId}\0${refDomain}\0${payload.toString('hex')}`;
}

export function formatRootRefCursor(
  signer: Signer,
  space: Space,
  refDomain: string,
  at: RootRefPosition,
): string {
  const bytes = Buffer.alloc(AT.end);
  bytes.writeUInt8(VERSION, 0);
  bytes.writeBigUInt64LE(BigInt(at.revision), AT.revision);
  bytes.set(hashToBytes(at.after), AT.hash);
  const message = signedMessage(space, refDomain, bytes.subarray(0, AT.signature));
  bytes.set(signer.sign('cursor', message), AT.signature);
  return bytes.toString('base64url');
}

/** Throws INVALID_REQUEST for a cursor that is malformed, forged or from another scope. */
export function parseRootRefCursor(
  signer: Signer,
  space: Space,
  refDomain: string,
  cursor: string,
): RootRefPosition {
  const bytes = Buffer.from(cursor, 'base64url');
  if (bytes.length !== AT.end || bytes.toString('base64url') !== cursor) throw notOurs();
  const payload = bytes.subarray(0, AT.signature);
  const message = signedMessage(space, refDomain, payload);
  if (!signer.verify('cursor', message, bytes.subarray(AT.signature))) throw notOurs();
  if (payload.readUInt8(0) !== VERSION) throw notOurs();
  return {
    revision: Number(payload.readBigUInt64LE(AT.revision)),
    after: bytesToHash(payload.subarray(AT.hash, AT.signature)),
  };
}

const notOurs = (): ApiError =>
  new ApiError(
    'INVALID_REQUEST',
    'cursor: not one this server gave for this App, Space and refDomain; begin again without a cursor',
  );
