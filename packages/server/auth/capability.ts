/** A verified capability, and the checks of its header and claims (docs/api.md, Capabilities, rows 7 to 10). Pure. */
import {
  ApiError,
  type Authority,
  BULK_OPERATIONS,
  type BulkOperationName,
  CLOCK_TOLERANCE_MS,
  isRefDomain,
  type JsonObject,
  type JsonValue,
  OPERATIONS,
  type OperationName,
} from '@holdfast/protocol';
import { unauthorized } from './auth-errors.ts';

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

interface NeededAuthority {
  readonly authority: Authority;
  readonly needsRefDomain?: boolean;
}

const REQUESTED_OPERATIONS: Readonly<Record<RequestedOperation, NeededAuthority>> = {
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
