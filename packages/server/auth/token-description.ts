/** Reads the claims of a token for the records of what was done: unverified, and never the token itself. */
import { parseToken, readBearerToken } from './token.ts';

export interface TokenDescription {
  readonly iss: string | undefined;
  readonly sub: string | undefined;
  readonly jti: string | undefined;
  readonly kid: string | undefined;
}

/** undefined if no token is readable. */
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
    // The caller has already been refused for it.
    return undefined;
  }
}
