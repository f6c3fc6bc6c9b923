/** Reads the token of a capability, and checks its claims, scope and revocations (docs/api.md, Capabilities, rows 1 to 3 and 7 to 10). Pure. */
import {
  ApiError,
  BULK_OPERATIONS,
  type BulkOperationName,
  CLOCK_TOLERANCE_MS,
  isJsonObject,
  isRefDomain,
  type JsonObject,
  type JsonValue,
  OPERATIONS,
  type Operation,
  type OperationName,
  parseStrictJson,
  StrictJsonError,
} from '@holdfast/protocol';
import { missingToken, TOKEN_CHARACTERS_MAX, unauthorized } from './auth-limits.ts';
import type { Revocation, RevokedClaim } from './registry-store.ts';

/** Whole groups, then optionally a shorter group whose unused trailing bits are zero. */
const BASE64URL = /^(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-][AQgw]|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048])?$/;

/** Returns whether `text` is the canonical encoding of some bytes, without padding. Empty text is valid. */
export function isBase64url(text: string): boolean {
  return BASE64URL.test(text);
}

/** The parts of a JWT with a readable header and claims, an `alg` and an `iss`. They are unverified. */
export interface ParsedToken {
  /** the compact form, for the signature check; never log it */
  readonly compact: string;
  readonly header: JsonObject;
  readonly claims: JsonObject;
  readonly algorithm: string;
  readonly issuer: string;
}

const BEARER_PREFIX = 'Bearer ';
const CREDENTIAL_CHARACTERS_MAX = BEARER_PREFIX.length + TOKEN_CHARACTERS_MAX;
/** RFC 6750 section 2.1 with the case-insensitive scheme of RFC 9110 section 11.1. */
const BEARER = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;
/** Header and claims are never empty. The signature is empty if `alg` is `none`, which row 3 refuses. */
const COMPACT_JWS = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)$/;

/** The token of an `Authorization` header, within the length limit. @throws ApiError `missing_token` (row 1), `invalid_token` (row 2) */
export function readBearerToken(authorization: string | null): string {
  if (authorization === null) throw missingToken();
  const token = authorization.startsWith(BEARER_PREFIX)
    ? authorization.slice(BEARER_PREFIX.length).trimStart()
    : BEARER.exec(authorization)?.[1];
  if (token === undefined || token === '') {
    throw unauthorized('invalid_token', 'the Authorization header is not "Bearer <capability>"');
  }
  if (token.length > TOKEN_CHARACTERS_MAX) {
    throw unauthorized(
      'invalid_token',
      `the token is longer than ${TOKEN_CHARACTERS_MAX} characters; ask for one with fewer claims`,
    );
  }
  return token;
}

/** The header as `Bearer`, one space, the token, so that a token has one form. Throws as `readBearerToken`. */
export function plainCredential(authorization: string | null): string {
  if (authorization?.startsWith(BEARER_PREFIX) && authorization.length <= CREDENTIAL_CHARACTERS_MAX) {
    const first = authorization.charCodeAt(BEARER_PREFIX.length);
    // A printable character follows, so there is one space and some token.
    if (first > 0x20 && first < 0x7f) return authorization;
  }
  return BEARER_PREFIX + readBearerToken(authorization);
}

/** Splits a JWT of bounded length. @throws ApiError `invalid_token` (row 2) if it is not a JWT or has no `alg` or `iss` */
export function parseToken(compact: string): ParsedToken {
  const parts = COMPACT_JWS.exec(compact);
  if (parts === null) throw notAToken('it is not three base64url parts');
  const header = parsePart(parts[1] as string, 'header');
  const claims = parsePart(parts[2] as string, 'claims');
  if (!isBase64url(parts[3] as string)) throw notAToken('its signature is not base64url');
  const algorithm = header.get('alg');
  if (typeof algorithm !== 'string') throw notAToken('it has no "alg"');
  const issuer = claims.get('iss');
  if (typeof issuer !== 'string') throw notAToken('it has no "iss"');
  return { compact, header, claims, algorithm, issuer };
}

function parsePart(base64url: string, name: string): JsonObject {
  if (!isBase64url(base64url)) throw notAToken(`its ${name} part is not base64url`);
  try {
    // Some depth is allowed, because issuers may add claims of their own.
    const value = parseStrictJson(Buffer.from(base64url, 'base64url'), { depthMax: 16 });
    if (isJsonObject(value)) return value;
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
  }
  throw notAToken(`its ${name} part is not a JSON object`);
}

function notAToken(reason: string): ApiError {
  return unauthorized('invalid_token', `the token is not a signed JWT: ${reason}`);
}

export interface TokenDescription {
  readonly iss: string | undefined;
  readonly sub: string | undefined;
  readonly jti: string | undefined;
  readonly kid: string | undefined;
}

/** The claims and the key id that the audit log names, unverified; undefined if the header has no readable token. */
export function describeToken(authorization: string | null): TokenDescription | undefined {
  try {
    const { issuer, claims, header } = parseToken(readBearerToken(authorization));
    const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
    return {
      iss: issuer,
      sub: text(claims.get('sub')),
      jti: text(claims.get('jti')),
      kid: text(header.get('kid')),
    };
  } catch {
    // The request was refused for this already, so nothing is lost.
    return undefined;
  }
}

/** A verified token: its App and Space, its rights, and its holder. */
export interface Capability {
  readonly appId: string;
  readonly spaceId: string;
  readonly permissions: ReadonlySet<string>;
  /** undefined if absent or malformed */
  readonly refDomain: string | undefined;
  /** `sub`, for the log */
  readonly subject: string | undefined;
  /** `jti`, for the log */
  readonly tokenId: string | undefined;
}

/** The period in which a capability is valid, ms since the epoch, clock tolerance included: `from` ≤ now < `until`. */
export interface Validity {
  readonly from: number;
  readonly until: number;
}

interface TokenRules {
  readonly appId: string;
  readonly audience: string;
  readonly tokenLifetimeMsMax: number;
}

const TOKEN_VERSION = 1;
/** Issuers choose the type of their capabilities (RFC 8725). Only its suffix is common to all. */
const TYPE = /^(?:(?:application\/)?jwt|.*-cap\+jwt)$/i;

/** Checks the header parameters other than `alg`. Keys and links to keys in the header are never used. */
export function checkHeader(header: JsonObject): { readonly kid: string | undefined } {
  if (header.has('crit')) throw invalid('its header has "crit", which is not supported');
  const type = header.get('typ');
  if (type !== undefined && (typeof type !== 'string' || !TYPE.test(type))) {
    throw invalid('its "typ" is not "JWT", "cas-cap+jwt" or another that ends in "-cap+jwt"');
  }
  const kid = header.get('kid');
  if (kid !== undefined && typeof kid !== 'string') throw invalid('its "kid" is not a string');
  return { kid };
}

/** Checks the claims of a token whose signature is valid. `now`: ms since the epoch. @throws ApiError `invalid_token` */
export function checkClaims(
  claims: JsonObject,
  rules: TokenRules,
  now: number,
): { readonly capability: Capability; readonly validity: Validity } {
  if (!hasAudience(claims.get('aud'), rules.audience)) {
    throw invalid('its "aud" is not the audience registered for the App');
  }
  const validity = checkTimes(claims, rules.tokenLifetimeMsMax);
  checkValidity(validity, now);
  if (claims.get('ver') !== TOKEN_VERSION) throw invalid(`its "ver" is not ${TOKEN_VERSION}`);
  const spaceId = claims.get('spaceId');
  if (typeof spaceId !== 'string' || spaceId === '') throw invalid('its "spaceId" is not a non-empty string');
  const permissions = claims.get('permissions');
  if (!isStringArray(permissions)) throw invalid('its "permissions" is not an array of strings');
  const refDomain = claims.get('refDomain');
  return {
    capability: {
      appId: rules.appId,
      spaceId,
      permissions: new Set(permissions),
      refDomain: isRefDomain(refDomain) ? refDomain : undefined,
      subject: readOptionalString(claims, 'sub'),
      tokenId: readOptionalString(claims, 'jti'),
    },
    validity,
  };
}

/** @throws ApiError `invalid_token` if the capability is not valid yet or has expired */
function checkValidity(validity: Validity, now: number): void {
  if (now >= validity.until) throw invalid('it has expired; ask its issuer for a new one');
  if (now < validity.from) {
    throw invalid('it is not valid yet; check the clocks of its issuer and of this server');
  }
}

/** The operations that a capability can permit: those of the Space API and of Bulk. */
export type RequestedOperation = OperationName | BulkOperationName;

const REQUESTED_OPERATIONS: Readonly<Record<RequestedOperation, Operation>> = {
  ...OPERATIONS,
  ...BULK_OPERATIONS,
};

/** The decoded ids of the route; undefined if invalid. */
export interface ScopeTarget {
  readonly appId: string | undefined;
  readonly spaceId: string | undefined;
}

/** Rows 8 to 10: whether a valid token permits this request. A path without a valid id gets 400 instead of row 8. */
export function checkScope(capability: Capability, target: ScopeTarget, operation: RequestedOperation): void {
  if (target.appId === undefined || target.spaceId === undefined) {
    const name = target.appId === undefined ? 'appId' : 'spaceId';
    throw new ApiError(
      'INVALID_REQUEST',
      `the ${name} of the path is not 1 to 256 percent-encoded characters without control characters`,
    );
  }
  if (capability.appId !== target.appId) {
    throw new ApiError('resource_scope_mismatch', 'the token is for another App than the path names');
  }
  if (capability.spaceId !== target.spaceId) {
    throw new ApiError('resource_scope_mismatch', 'the token is for another Space than the path names');
  }
  const { authority, needsRefDomain } = REQUESTED_OPERATIONS[operation];
  if (!capability.permissions.has(authority)) {
    throw new ApiError('insufficient_permission', `the token lacks the permission ${authority}`);
  }
  if (needsRefDomain && capability.refDomain === undefined) {
    throw new ApiError(
      'resource_scope_mismatch',
      'the token has no valid "refDomain": lower-case letters and digits in parts joined by ":", at most 64 characters, such as app:drafts',
    );
  }
}

function checkTimes(claims: JsonObject, tokenLifetimeMsMax: number): Validity {
  const expiresAt = readInstant(claims, 'exp');
  const issuedAt = readInstant(claims, 'iat');
  const notBefore = claims.has('nbf') ? readInstant(claims, 'nbf') : issuedAt;
  if (expiresAt - issuedAt > tokenLifetimeMsMax) {
    throw invalid('"exp" minus "iat" is more than the lifetime the App allows');
  }
  return {
    from: Math.max(issuedAt, notBefore) - CLOCK_TOLERANCE_MS,
    until: expiresAt + CLOCK_TOLERANCE_MS,
  };
}

/** Converts a NumericDate (seconds, fractions allowed) to whole ms. */
function readInstant(claims: JsonObject, name: 'exp' | 'iat' | 'nbf'): number {
  const value = claims.get(name);
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw invalid(`its "${name}" is not a number of seconds`);
  }
  return Math.round(value * 1000);
}

function hasAudience(claim: JsonValue | undefined, audience: string): boolean {
  if (typeof claim === 'string') return claim === audience;
  return isStringArray(claim) && claim.includes(audience);
}

function readOptionalString(claims: JsonObject, name: 'sub' | 'jti'): string | undefined {
  const value = claims.get(name);
  if (value !== undefined && typeof value !== 'string') throw invalid(`its "${name}" is not a string`);
  return value;
}

function isStringArray(value: JsonValue | undefined): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

function invalid(reason: string): ApiError {
  return unauthorized('invalid_token', `the token is not valid: ${reason}`);
}

/** The revocations of one App: value → end, ms. */
export type Revocations = Readonly<Record<RevokedClaim, ReadonlyMap<string, number>>>;

/** Returns undefined for an App without revocations, so that its requests skip the check. */
export function indexRevocations(revocations: readonly Revocation[]): Revocations | undefined {
  if (revocations.length === 0) return undefined;
  const index = { jti: new Map<string, number>(), sub: new Map<string, number>() };
  for (const { claim, value, until } of revocations) index[claim].set(value, until);
  return index;
}

/**
 * `now`: ms since the epoch. A token that expires no later than the revocation stays refused: clock tolerance does not revive it.
 * @throws ApiError `invalid_token`
 */
export function checkRevocations(
  revocations: Revocations | undefined,
  { tokenId, subject }: Capability,
  { until: acceptedUntil }: Validity,
  now: number,
): void {
  if (revocations === undefined) return;
  const counts = (until: number | undefined): boolean =>
    until !== undefined && (now < until || acceptedUntil - CLOCK_TOLERANCE_MS <= until);
  const isRevoked =
    (tokenId !== undefined && counts(revocations.jti.get(tokenId))) ||
    (subject !== undefined && counts(revocations.sub.get(subject)));
  if (isRevoked) {
    throw unauthorized('invalid_token', 'the token is not valid: the operator has revoked it');
  }
}
