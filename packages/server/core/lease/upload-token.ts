/**
 * The token in an upload URL of our own target names a generation and an expiry, and is signed. The signature does not cover
 * the host, so a URL works through any name of this server. To whom it was given stands in it as keyed digests, so that a revocation
 * reaches it, and the URL does not say it.
 */
import { ApiError, findJson, type Hash, isHash, isPackId } from '@holdfast/protocol';
import { isGeneration } from '../generation.ts';
import type { Generation, Space } from '../model.ts';
import type { PackId } from '../pack-model.ts';
import type { Signer } from '../ports.ts';

interface Grant {
  readonly space: Space;
  readonly generation: Generation;
  /** ms */
  readonly expiresAt: number;
  /** left out: the capability had none of these claims, or the URL was given by an earlier release */
  readonly holder?: HolderDigests | undefined;
}

export interface UploadGrant extends Grant {
  readonly hash: Hash;
}

export interface PackGrant extends Grant {
  readonly pack: PackId;
}

/** The claims by which the capability that asked for a URL can be revoked. */
export interface UploadHolder {
  readonly jti: string | undefined;
  readonly sub: string | undefined;
}

/** base64url; null: the capability has no such claim */
type HolderDigests = { readonly [Claim in keyof UploadHolder]: string | null };

export function signUploadToken(
  signer: Signer,
  { hash, ...grant }: UploadGrant,
  holder?: UploadHolder,
): string {
  return sign(signer, hash, grant, holder);
}

/** A pack's id is half as long as a hash, so that no token can be taken for one of the other kind. */
export function signPackToken(signer: Signer, { pack, ...grant }: PackGrant, holder?: UploadHolder): string {
  return sign(signer, pack, grant, holder);
}

function sign(
  signer: Signer,
  subject: Hash | PackId,
  { space: { appId, spaceId }, generation, expiresAt }: Grant,
  holder: UploadHolder | undefined,
): string {
  const fields: unknown[] = [generation, subject, expiresAt, appId, spaceId];
  if (holder?.jti !== undefined || holder?.sub !== undefined) {
    fields.push(CLAIMS.map((claim) => digestOf(signer, appId, claim, holder[claim])));
  }
  const payload = Buffer.from(JSON.stringify(fields)).toString('base64url');
  return `${payload}.${Buffer.from(signer.sign('upload-url', payload)).toString('base64url')}`;
}

const CLAIMS = ['jti', 'sub'] as const satisfies readonly (keyof UploadHolder)[];

const holderText = (appId: string, claim: keyof UploadHolder, value: string): string =>
  JSON.stringify([appId, claim, value]);

function digestOf(
  signer: Signer,
  appId: string,
  claim: keyof UploadHolder,
  value: string | undefined,
): string | null {
  if (value === undefined) return null;
  return Buffer.from(signer.sign('upload-holder', holderText(appId, claim, value))).toString('base64url');
}

/** Whether the URL was given to a capability whose claim has this value. */
export function isHeldBy(
  signer: Signer,
  { space, holder }: Pick<Grant, 'space' | 'holder'>,
  claim: keyof UploadHolder,
  value: string,
): boolean {
  const digest = holder?.[claim] ?? null;
  if (digest === null) return false;
  const text = holderText(space.appId, claim, value);
  return signer.verify('upload-holder', text, Buffer.from(digest, 'base64url'));
}

/** Checks the signature before it looks at anything inside. Throws 403 FORBIDDEN. */
export function parseUploadToken(signer: Signer, token: string): UploadGrant | PackGrant {
  const dot = token.indexOf('.');
  // Two ids of 256 code points in base64 of JSON have fewer characters.
  if (dot <= 0 || token.length > 8192) throw notOurs();
  const payload = token.slice(0, dot);
  const signatureText = token.slice(dot + 1);
  const signature = Buffer.from(signatureText, 'base64url');
  // Only the exact text that we gave out is accepted: base64url decoding ignores padding and foreign characters.
  if (signature.toString('base64url') !== signatureText) throw notOurs();
  if (!signer.verify('upload-url', payload, signature)) throw notOurs();
  return parsePayload(payload);
}

function parsePayload(payload: string): UploadGrant | PackGrant {
  const fields = findJson(Buffer.from(payload, 'base64url').toString('utf8'));
  if (!Array.isArray(fields) || fields.length > 6) throw notOurs();
  const [generation, subject, expiresAt, appId, spaceId, digests] = fields as unknown[];
  if (typeof generation !== 'string' || !isGeneration(generation)) throw notOurs();
  if (typeof expiresAt !== 'number' || !Number.isSafeInteger(expiresAt)) throw notOurs();
  if (typeof appId !== 'string' || typeof spaceId !== 'string') throw notOurs();
  const holder = digests === undefined ? undefined : parseHolder(digests);
  const grant = { space: { appId, spaceId }, generation, expiresAt, ...(holder && { holder }) };
  if (isPackId(subject)) return { ...grant, pack: subject };
  if (!isHash(subject)) throw notOurs();
  return { ...grant, hash: subject };
}

function parseHolder(digests: unknown): HolderDigests {
  if (!Array.isArray(digests) || digests.length !== CLAIMS.length) throw notOurs();
  const [jti, sub] = digests as unknown[];
  if (!isDigest(jti) || !isDigest(sub)) throw notOurs();
  return { jti, sub };
}

const isDigest = (value: unknown): value is string | null => value === null || typeof value === 'string';

const notOurs = (): ApiError =>
  new ApiError(
    'FORBIDDEN',
    'this upload URL is not one this server signed; lease the node and use the URL from the answer unchanged',
  );
