/** The capability of one request: read for each attempt, and once more when the server refuses it. */
import { CasError, type RequestOperation } from './errors.ts';

/**
 * Gives the capability to send. Asked before every attempt, so it should keep what it has. `refused` is given after a 401: the
 * token that the server did not take. Whoever has another then returns it, and the request is sent once more.
 */
export type TokenSource = (refused?: string) => string | Promise<string>;

/** Of one request and all its attempts. */
export interface Authorization {
  /** The token for the next attempt. Throws or rejects with CasError TOKEN_UNAVAILABLE. */
  readToken(): string | Promise<string>;
  /** Whether there is another token than the one that was refused; the next attempt has it. Rejects with CasError TOKEN_UNAVAILABLE. */
  renewToken(): Promise<boolean>;
}

export function createAuthorization(source: TokenSource): (operation: RequestOperation) => Authorization {
  const read = createTokenReader(source);
  return (operation) => {
    let sent: string | undefined;
    let renewed: string | undefined;
    const keep = (token: string): string => {
      sent = token;
      return token;
    };
    return {
      readToken: () => {
        const token = renewed ?? read(operation);
        renewed = undefined;
        return typeof token === 'string' ? keep(token) : token.then(keep);
      },
      renewToken: async () => {
        if (sent === undefined) return false;
        renewed = await read(operation, sent);
        return renewed !== sent;
      },
    };
  };
}

/**
 * Checks what the source gives, without its value in any message: `fetch` would put a token it cannot send into the text of
 * its own error.
 */
function createTokenReader(
  source: TokenSource,
): (operation: RequestOperation, refused?: string) => string | Promise<string> {
  let lastGood: string | undefined;
  const check = (token: unknown, requestOperation: RequestOperation): string => {
    if (typeof token === 'string' && (token === lastGood || /^[\x21-\x7e]+$/.test(token))) {
      lastGood = token;
      return token;
    }
    const message = `${requestOperation}: the token is empty or has characters that no token has`;
    throw new CasError(message, { code: 'TOKEN_UNAVAILABLE', requestOperation });
  };
  const fail = (cause: unknown, requestOperation: RequestOperation): never => {
    const details = { code: 'TOKEN_UNAVAILABLE', requestOperation, cause } as const;
    const reason = cause instanceof TokenRenewalError ? cause.message : 'the token function failed';
    throw new CasError(`${requestOperation}: ${reason}`, details);
  };
  return (operation, refused) => {
    let given: string | Promise<string>;
    try {
      given = refused === undefined ? source() : source(refused);
    } catch (cause) {
      return fail(cause, operation);
    }
    if (typeof given === 'string') return check(given, operation);
    return Promise.resolve(given).then(
      (token) => check(token, operation),
      (cause: unknown) => fail(cause, operation),
    );
  };
}

/** No new token could be had, and there is no good one. `message` is one line without secrets; `cause` is what failed. */
export class TokenRenewalError extends Error {
  override readonly name = 'TokenRenewalError';
}
