/**
 * The token in an upload URL of our own target names a generation and an expiry, and is signed. The signature does not cover
 * the host, so a URL works through any name of this server.
 */
import { ApiError, type Hash, isHash, isPackId } from '@holdfast/protocol';
import type { Generation, Space } from './model.ts';
import type { PackId } from './packs/pack-model.ts';
import type { Signer } from './ports.ts';

export interface UploadGrant {
  readonly space: Space;
  readonly hash: Hash;
  readonly generation: Generation;
  /** ms */
  readonly expiresAt: number;
}

export interface PackGrant {
  readonly space: Space;
  readonly pack: PackId;
  readonly generation: Generation;
  /** ms */
  readonly expiresAt: number;
}

/** Two ids of 256 code points, base64 of JSON, with room. */
const UPLOAD_TOKEN_CHARACTERS_MAX = 8192;
const GENERATION = /^[0-9a-f]{32}$/;

export function signUploadToken(signer: Signer, { hash, ...grant }: UploadGrant): string {
  return sign(signer, hash, grant);
}

/** A pack's id is half as long as a hash, so that no token can be taken for one of the other kind. */
export function signPackToken(signer: Signer, { pack, ...grant }: PackGrant): string {
  return sign(signer, pack, grant);
}

function sign(
  signer: Signer,
  subject: Hash | PackId,
  { space, generation, expiresAt }: Omit<PackGrant, 'pack'>,
): string {
  const payload = Buffer.from(
    JSON.stringify([generation, subject, expiresAt, space.appId, space.spaceId]),
  ).toString('base64url');
  return `${payload}.${Buffer.from(signer.sign('upload-url', payload)).toString('base64url')}`;
}

/** Checks the signature before it looks at anything inside. Throws 403 FORBIDDEN. */
export function parseUploadToken(signer: Signer, token: string): UploadGrant | PackGrant {
  const dot = token.indexOf('.');
  if (dot <= 0 || token.length > UPLOAD_TOKEN_CHARACTERS_MAX) throw notOurs();
  const payload = token.slice(0, dot);
  const signatureText = token.slice(dot + 1);
  const signature = Buffer.from(signatureText, 'base64url');
  // Only the exact text that we gave out is accepted: base64url decoding ignores padding and foreign characters.
  if (signature.toString('base64url') !== signatureText) throw notOurs();
  if (!signer.verify('upload-url', payload, signature)) throw notOurs();
  return parsePayload(payload);
}

function parsePayload(payload: string): UploadGrant | PackGrant {
  let fields: unknown;
  try {
    fields = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
  } catch {
    throw notOurs();
  }
  if (!Array.isArray(fields) || fields.length !== 5) throw notOurs();
  const [generation, subject, expiresAt, appId, spaceId] = fields as unknown[];
  if (typeof generation !== 'string' || !GENERATION.test(generation)) throw notOurs();
  if (typeof expiresAt !== 'number' || !Number.isSafeInteger(expiresAt)) throw notOurs();
  if (typeof appId !== 'string' || typeof spaceId !== 'string') throw notOurs();
  const grant = { space: { appId, spaceId }, generation, expiresAt };
  if (isPackId(subject)) return { ...grant, pack: subject };
  if (typeof subject !== 'string' || !isHash(subject)) throw notOurs();
  return { ...grant, hash: subject };
}

const notOurs = (): ApiError =>
  new ApiError(
    'FORBIDDEN',
    'this upload URL is not one this server signed; lease the node and use the URL from the answer unchanged',
  );
