/** The signed listRootRefs cursor: where a walk goes on and which revision it shows, for one App, Space and domain. */
import { ApiError, bytesToHash, type Hash, hashToBytes } from '@holdfast/protocol';
import type { Space } from '../model.ts';
import type { Signer } from '../ports.ts';

export interface RootRefPosition {
  readonly revision: number;
  readonly after: Hash;
}

const VERSION = 1;
const REVISION_AT = 1;
const HASH_AT = 9;
const SIGNATURE_AT = 41;
const CURSOR_BYTES = 73;

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
  const bytes = Buffer.alloc(CURSOR_BYTES);
  bytes.writeUInt8(VERSION, 0);
  bytes.writeBigUInt64LE(BigInt(at.revision), REVISION_AT);
  bytes.set(hashToBytes(at.after), HASH_AT);
  const message = signedMessage(space, refDomain, bytes.subarray(0, SIGNATURE_AT));
  bytes.set(signer.sign('cursor', message), SIGNATURE_AT);
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
  if (bytes.length !== CURSOR_BYTES || bytes.toString('base64url') !== cursor) throw notOurs();
  const payload = bytes.subarray(0, SIGNATURE_AT);
  const message = signedMessage(space, refDomain, payload);
  if (!signer.verify('cursor', message, bytes.subarray(SIGNATURE_AT))) throw notOurs();
  if (payload.readUInt8(0) !== VERSION) throw notOurs();
  return {
    revision: Number(payload.readBigUInt64LE(REVISION_AT)),
    after: bytesToHash(payload.subarray(HASH_AT, SIGNATURE_AT)),
  };
}

const notOurs = (): ApiError =>
  new ApiError(
    'INVALID_REQUEST',
    'cursor: not one this server gave for this App, Space and refDomain; begin again without a cursor',
  );
