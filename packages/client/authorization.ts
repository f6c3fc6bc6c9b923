/** The capability of one request: read for each attempt, and once more when the server refuses it. */
import { CasError, type RequestOperation } from './errors.ts';

/**
 * Gives the capability to send. The client asks before every attempt, so a source should keep the token that it has. After a 401
 * the client passes the `refused` token. If the source then returns another one, the request is sent once more.
 */
export type TokenSource = (refused?: string) => string | Promise<string>;

export interface Authorization {
  /** The token for the next attempt. Rejects with CasError TOKEN_UNAVAILABLE. */
  readToken(): Promise<string>;
  /** Whether there is another token than the one that was refused; the next attempt has it. Rejects with CasError TOKEN_UNAVAILABLE. */
  renewToken(): Promise<boolean>;
}

export function startAuthorization(source: TokenSource, operation: RequestOperation): Authorization {
  let sent: string | undefined;
  let renewed: string | undefined;
  return {
    async readToken() {
      sent = renewed ?? (await readFrom(source, operation));
      renewed = undefined;
      return sent;
    },
    async renewToken() {
      if (sent === undefined) return false;
      renewed = await readFrom(source, operation, sent);
      return renewed !== sent;
    },
  };
}

/**
 * Checks what the source gives, without its value in any message: `fetch` would put a token it cannot send into the text of
 * its own error.
 */
async function readFrom(
  source: TokenSource,
  requestOperation: RequestOperation,
  refused?: string,
): Promise<string> {
  let token: unknown;
  try {
    token = await (refused === undefined ? source() : source(refused));
  } catch (cause) {
    const reason = cause instanceof TokenRenewalError ? cause.message : 'the token function failed';
    const details = { code: 'TOKEN_UNAVAILABLE', requestOperation, cause } as const;
    throw new CasError(`${requestOperation}: ${reason}`, details);
  }
  if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)) return token;
  const message = `${requestOperation}: the token is empty or has characters that no token has`;
  throw new CasError(message, { code: 'TOKEN_UNAVAILABLE', requestOperation });
}

/** No new token could be had, and there is no good one. `message` is one line without secrets; `cause` is what failed. */
export class TokenRenewalError extends Error {
  override readonly name = 'TokenRenewalError';
}
