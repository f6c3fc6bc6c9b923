/** The unverified claims of a token: good for advice and for telling places apart, never for a decision about access. */
import { findJson, isRecord } from '@holdfast/protocol';

export type TokenClaims = Readonly<Record<string, unknown>>;

/** undefined when it is none that can be read. */
export function findClaims(token: string): TokenClaims | undefined {
  const claims = findJson(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString('utf8'));
  // The server says what is wrong with it.
  return isRecord(claims) ? claims : undefined;
}

/** ms since the epoch; undefined when the token does not say. */
export function findExpiry(claims: TokenClaims | undefined): number | undefined {
  const exp = claims?.exp;
  return typeof exp === 'number' && Number.isFinite(exp) ? Math.round(exp * 1_000) : undefined;
}
