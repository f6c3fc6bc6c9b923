/** A capability that is renewed before it ends: one renewal at a time for all callers. */
import { checkFunction, checkObject } from './arguments.ts';
import { TokenRenewalError, type TokenSource } from './authorization.ts';
import { type Clock, sleep, systemClock } from './deadline.ts';
import { TOKEN_RENEWAL_TIMEOUT_MS } from './limits.ts';

export interface TokenSourceOptions {
  /** Gets a new token from the service that signs tokens. Never called while it runs; a call of more than 30 s counts as failed. */
  readonly renew: () => string | Promise<string>;
  /** Hears of renewals that failed while the token at hand was still good: nobody else does. */
  readonly onRenewalFailed?: ((error: unknown) => void) | undefined;
  /** Instead of the system's clock and timers. */
  readonly clock?: Clock | undefined;
}

/** A token and when to part from it, by this machine's clock. */
interface KeptToken {
  readonly token: string;
  /** From then on it is renewed while it is used. */
  renewAt: number;
  readonly endsAt: number;
}

/**
 * A source of tokens for `createClient`. The first request gets the first token by `renew`. When 20 % of its life are left, 30 s
 * at least, it is renewed while requests go on with the one at hand; a failure then is tried again after 5 s. A token that the
 * server refuses (401) is renewed at once. A token without a readable `exp` is renewed only then.
 */
export function createTokenSource(options: TokenSourceOptions): TokenSource {
  const call = { name: 'createTokenSource', requestOperation: 'createClient' } as const;
  checkObject(call, 'the options', options);
  const { renew, onRenewalFailed, clock = systemClock } = options;
  checkFunction(call, 'renew', renew);
  let kept: KeptToken | undefined;
  let renewing: Promise<string> | undefined;

  async function runRenewal(): Promise<string> {
    const ending = new AbortController();
    const tooLong = sleep(clock, TOKEN_RENEWAL_TIMEOUT_MS, ending.signal).then(() => {
      throw new TokenRenewalError(`no new token came within ${TOKEN_RENEWAL_TIMEOUT_MS / 1_000} s`);
    });
    // It loses the race in most cases.
    tooLong.catch(() => undefined);
    try {
      const token = await Promise.race([Promise.resolve().then(renew), tooLong]);
      kept = keepToken(token, clock.now());
      return token;
    } catch (cause) {
      if (cause instanceof TokenRenewalError) throw cause;
      throw new TokenRenewalError(`the token cannot be renewed: ${describe(cause)}`, { cause });
    } finally {
      ending.abort();
      renewing = undefined;
    }
  }

  const startRenewal = (): Promise<string> => {
    renewing ??= runRenewal();
    return renewing;
  };

  function renewEarly(current: KeptToken): void {
    startRenewal().catch((error: unknown) => {
      // An early renewal failed: the source uses the token at hand for 5 s before it tries again.
      current.renewAt = clock.now() + 5_000;
      onRenewalFailed?.(error);
    });
  }

  return (refused) => {
    // If many requests were refused together, only the first finds the refused token still kept.
    if (refused !== undefined && kept?.token === refused) kept = undefined;
    const now = clock.now();
    if (kept === undefined || now >= kept.endsAt) return startRenewal();
    if (now >= kept.renewAt && renewing === undefined) renewEarly(kept);
    return kept.token;
  };
}

function keepToken(token: string, now: number): KeptToken {
  const { issuedAt, expiresAt } = readTimes(token);
  if (expiresAt === undefined) {
    return { token, renewAt: Number.POSITIVE_INFINITY, endsAt: Number.POSITIVE_INFINITY };
  }
  const life = Math.max(0, expiresAt - (issuedAt ?? now));
  // A token that was over before it came was signed by another clock: its life counts from now.
  const endsAt = expiresAt > now ? expiresAt : now + life;
  // Renewal begins 30 s or a fifth of its life before a token ends, but not in the first half of its life.
  const margin = Math.min(Math.max(30_000, life * 0.2), life / 2);
  return { token, renewAt: endsAt - margin, endsAt };
}

/** The unverified times of the token, in ms; those that cannot be read are left out. */
function readTimes(token: string): { issuedAt?: number; expiresAt?: number } {
  try {
    const base64 = (token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/');
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes));
    return {
      ...(Number.isFinite(claims.iat) ? { issuedAt: claims.iat * 1_000 } : {}),
      ...(Number.isFinite(claims.exp) ? { expiresAt: claims.exp * 1_000 } : {}),
    };
  } catch {
    // The server says what is wrong with it.
    return {};
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : 'it failed';
}
