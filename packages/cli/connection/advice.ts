/** Explains a failed request to a person: what happened, and which part of the connection to check. */
import type { CasError } from '@holdfast/client';
import {
  type Authority,
  BULK_OPERATIONS,
  OPERATIONS,
  TOKEN_LIFETIME_MS_MAX_DEFAULT,
} from '@holdfast/protocol';
import { formatTime } from '../progress/format-progress.ts';
import { findClaims, findExpiry, type TokenClaims } from './token-claims.ts';

export interface UsedConnection {
  readonly baseUrl: string;
  readonly appId: string;
  readonly spaceId: string;
  readonly token: string;
}

const RENEW =
  'make another with holdfast token, and put it into HOLDFAST_TOKEN, the --token-file or the profile (holdfast login)';

const ADVICE: Partial<Record<CasError['code'], string>> = {
  APP_SUSPENDED: 'ask who runs the server, or run: holdfast app resume',
  TOKEN_UNAVAILABLE: 'put the token alone into HOLDFAST_TOKEN or the --token-file',
  missing_token: 'set HOLDFAST_TOKEN or --token-file',
  unsupported_algorithm: 'sign it with an algorithm the App accepts',
};

/** One line: what happened, by words and code, and what to do. `now`: ms since the epoch. */
export function explainCasError(error: CasError, used: UsedConnection, now = Date.now()): string {
  const status = error.status === undefined ? '' : ` ${error.status}`;
  const advice = adviseOn(error, used, now);
  return `${describe(error, used)} (${error.code}${status})${advice === undefined ? '' : `; ${advice}`}`;
}

function describe({ code, reason }: CasError, { baseUrl }: UsedConnection): string {
  if (code === 'TIMED_OUT') return `no answer from ${baseUrl} in time`;
  return reason;
}

function adviseOn(error: CasError, used: UsedConnection, now: number): string | undefined {
  const claims = findClaims(used.token);
  switch (error.code) {
    case 'invalid_token':
      return adviseOnToken(error, claims, now);
    case 'unknown_issuer':
      return `the token's issuer is ${quote(claims?.iss)}: register the App for it with holdfast app add, or use a token of the registered one`;
    case 'resource_scope_mismatch':
      return adviseOnScope(claims, used);
    case 'insufficient_permission':
      return adviseOnPermission(error.requestOperation, claims);
    case 'TIMED_OUT':
      return 'check the connection and that the server works, then try again';
    case 'MALFORMED_RESPONSE':
      // Its own text says what to check.
      return error.isBrokenOnTheWay ? undefined : adviseOnAddress(used);
    case 'RESPONSE_TOO_LARGE':
      if (error.requestOperation === 'readContent') return 'write it to a file or a pipe instead';
      // Without a status it is about many answers.
      return error.status === undefined ? undefined : adviseOnAddress(used);
    case 'NOT_FOUND':
      // For a known route, the server names what is missing.
      return /\broute\b/.test(error.reason) ? adviseOnAddress(used) : undefined;
    default:
      return ADVICE[error.code];
  }
}

function adviseOnAddress({ baseUrl }: UsedConnection): string {
  return `check HOLDFAST_URL or --url: ${baseUrl} is not where a Holdfast server answers its API, or has a path too many or too few; serve prints that address after "listening on", and another one for operators`;
}

function adviseOnToken(error: CasError, claims: TokenClaims | undefined, now: number): string {
  if (claims === undefined) return `the given text is no token: ${RENEW}`;
  const expiresAt = findExpiry(claims);
  if (expiresAt !== undefined && expiresAt <= now) {
    return `the token expired ${formatTime(now - expiresAt)} ago: ${RENEW}`;
  }
  if (error.reason.includes('"aud"')) {
    return `the token's audience is ${quote(claims.aud)}: make one with the --audience the App is registered for (holdfast app list shows it)`;
  }
  const issuedAt = typeof claims.iat === 'number' ? claims.iat * 1_000 : undefined;
  if (expiresAt !== undefined && issuedAt !== undefined && error.reason.includes('"exp"')) {
    return `the token is made for ${formatTime(expiresAt - issuedAt)}, and Apps allow ${formatTime(TOKEN_LIFETIME_MS_MAX_DEFAULT)} unless they were registered with another --max-token-lifetime: make one with a shorter --ttl`;
  }
  if (error.reason.includes('signature') || error.reason.includes('key')) {
    return 'sign it with the private key whose public half the App is registered with';
  }
  return RENEW;
}

function adviseOnScope(claims: TokenClaims | undefined, { appId, spaceId }: UsedConnection): string {
  if (claims !== undefined && claims.spaceId !== spaceId) {
    return `the token is for the Space ${quote(claims.spaceId)} and HOLDFAST_SPACE or --space says ${quote(spaceId)}: change one of them`;
  }
  // The server looks at App and Space first, and only then at what root refs need.
  if (claims !== undefined && claims.refDomain === undefined) {
    return `root refs need a token made with --ref-domain; else check that the token's issuer ${quote(claims.iss)} is that of the App ${quote(appId)}`;
  }
  return `the token's issuer ${quote(claims?.iss)} belongs to another App than ${quote(appId)}: check HOLDFAST_APP or --app, and who signed the token`;
}

function adviseOnPermission(
  operation: CasError['requestOperation'],
  claims: TokenClaims | undefined,
): string {
  const authority = findAuthority(operation) ?? 'it';
  const held = Array.isArray(claims?.permissions)
    ? `the token permits ${claims.permissions.join(', ')}: `
    : '';
  return `${held}use one made with --permission ${authority}`;
}

/** The permission that an operation of the Space API or of Bulk needs; `undefined` for a request that needs none. */
function findAuthority(operation: CasError['requestOperation']): Authority | undefined {
  const operations: Partial<Record<string, { readonly authority: Authority }>> = {
    ...OPERATIONS,
    ...BULK_OPERATIONS,
  };
  return operations[operation]?.authority;
}

function quote(value: unknown): string {
  return value === undefined ? 'not named' : JSON.stringify(value);
}
