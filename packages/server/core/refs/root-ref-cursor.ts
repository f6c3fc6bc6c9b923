/** The signed listRootRefs cursor: where a walk goes on and which revision it shows, for one App, Space and domain. */
import { ApiError, bytesToHash, type Hash, hashToBytes } from '@holdfast/protocol';
import type { Space } from '../model.ts';
import type { Signer } from '../ports.ts';

export interface RootRefPosition {
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
