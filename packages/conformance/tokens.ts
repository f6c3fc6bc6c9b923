/** Capabilities, good and forged, made without a JWT library so that every field can be wrong on its own. */
import { constants, createPrivateKey, sign } from 'node:crypto';

export interface PrivateJwk extends JsonWebKey {
  readonly kid?: string;
  readonly alg?: string;
}

/** Someone who may mint capabilities for one App of the target. */
export interface Identity {
  readonly appId: string;
  readonly issuer: string;
  readonly audience: string;
  readonly key: PrivateJwk;
  /** the App's maximum capability lifetime, ms; 24 h unless told */
  readonly tokenLifetimeMsMax?: number;
}

export const PERMISSIONS = [
  'cas:nodes:read',
  'cas:nodes:lease',
  'cas:usage:read',
  'cas:gc:execute',
  'cas:root-refs:read',
  'cas:root-refs:update',
] as const;

export type Fields = Readonly<Record<string, unknown>>;

/** The JWS algorithm a private key signs with. Throws for a key no capability may use. */
export function algorithmOf(key: PrivateJwk): string {
  if (key.alg !== undefined) return key.alg;
  if (key.kty === 'OKP' && key.crv === 'Ed25519') return 'EdDSA';
  if (key.kty === 'EC' && key.crv === 'P-256') return 'ES256';
  if (key.kty === 'EC' && key.crv === 'P-384') return 'ES384';
  if (key.kty === 'RSA') return 'RS256';
  throw new Error(
    `the key type ${key.kty ?? '(none)'} ${key.crv ?? ''} signs no capability: use ES256, ES384, EdDSA, PS256 or RS256`,
  );
}

export function base64url(value: Uint8Array | string): string {
  return Buffer.from(value).toString('base64url');
}

/** JSON of `fields`; a field set to `undefined` is left out. */
export function segment(fields: Fields): string {
  return base64url(JSON.stringify(fields));
}

export function signBytes(key: PrivateJwk, algorithm: string, message: string): Uint8Array {
  const privateKey = createPrivateKey({ key, format: 'jwk' });
  const data = Buffer.from(message);
  switch (algorithm) {
    case 'ES256':
      return sign('sha256', data, { key: privateKey, dsaEncoding: 'ieee-p1363' });
    case 'ES384':
      return sign('sha384', data, { key: privateKey, dsaEncoding: 'ieee-p1363' });
    case 'EdDSA':
      return sign(null, data, privateKey);
    case 'RS256':
      return sign('sha256', data, privateKey);
    case 'PS256':
      return sign('sha256', data, {
        key: privateKey,
        padding: constants.RSA_PKCS1_PSS_PADDING,
        saltLength: 32,
      });
    default:
      throw new Error(`no capability is signed with ${algorithm}: use ES256, ES384, EdDSA, PS256 or RS256`);
  }
}

export interface TokenSketch {
  readonly header?: Fields;
  readonly claims?: Fields;
  /** signs with another key than the identity's */
  readonly key?: PrivateJwk;
  /** bytes put in place of the signature */
  readonly signature?: Uint8Array;
}

/** Header and claims of a capability that every rule accepts, for `spaceId`, at `nowMs`. */
export function goodClaims(identity: Identity, spaceId: string, nowMs: number): Fields {
  const issuedAt = Math.floor(nowMs / 1000);
  return {
    ver: 1,
    iss: identity.issuer,
    aud: identity.audience,
    iat: issuedAt,
    exp: issuedAt + 600,
    spaceId,
    permissions: [...PERMISSIONS],
    refDomain: 'conformance',
  };
}

export function goodHeader(identity: Identity): Fields {
  return { alg: algorithmOf(identity.key), typ: 'JWT', kid: identity.key.kid };
}

/** A compact JWT: the good one with the sketch's fields laid over it (`undefined` removes a field). */
export function mintToken(
  identity: Identity,
  spaceId: string,
  nowMs: number,
  sketch: TokenSketch = {},
): string {
  const header = { ...goodHeader(identity), ...sketch.header };
  const claims = { ...goodClaims(identity, spaceId, nowMs), ...sketch.claims };
  const message = `${segment(header)}.${segment(claims)}`;
  const key = sketch.key ?? identity.key;
  const signature = sketch.signature ?? signBytes(key, algorithmOf(key), message);
  return `${message}.${base64url(signature)}`;
}
