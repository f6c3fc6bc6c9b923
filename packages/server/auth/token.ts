/** Reads and splits a capability from the header without verification (docs/api.md, Capabilities, rows 1 to 3). */
import {
  type ApiError,
  isJsonObject,
  type JsonObject,
  parseStrictJson,
  StrictJsonError,
} from '@holdfast/protocol';
import { missingToken, unauthorized } from './auth-errors.ts';
import { TOKEN_CHARACTERS_MAX } from './auth-limits.ts';
import { isBase64url } from './base64url.ts';

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
    // It lies between a space and DEL.
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
    // Nesting of arrays and objects in header and claims; issuers may add claims of their own.
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
