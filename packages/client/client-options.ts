/** The options of `createClient`, and their checks. */
import {
  type CheckedCall,
  checkFunction,
  checkInteger,
  checkNumber,
  checkObject,
  describeValue,
  invalidArgument,
} from './arguments.ts';
import type { TokenSource } from './authorization.ts';
import type { Zstd } from './bulk/bulk.ts';
import type { Clock } from './deadline.ts';
import type { NodeDigest } from './digest.ts';
import type { Timeouts } from './limits.ts';
import type { RetryPolicy } from './retry.ts';
import type { Sha256 } from './sha256.ts';
import type { FetchFunction } from './transport.ts';

export interface ClientOptions {
  /** Address of the server, such as `http://127.0.0.1:8420`; a path prefix is kept. */
  readonly baseUrl: string;
  readonly appId: string;
  readonly spaceId: string;
  /** A capability, or what gives one: `createTokenSource` renews it in time. */
  readonly token: string | TokenSource;
  /** Instead of the global `fetch`. */
  readonly fetch?: FetchFunction | undefined;
  /** Instead of the system's clock and timers. */
  readonly clock?: Clock | undefined;
  /** Instead of `Math.random`, for the jitter of waits. */
  readonly random?: (() => number) | undefined;
  readonly retry?: Partial<RetryPolicy> | undefined;
  readonly timeouts?: Partial<Timeouts> | undefined;
  /** The largest content `getNode` takes into memory, bytes; 64 MiB when left out. `openNode` has no limit. */
  readonly contentBytesMax?: number | undefined;
  /** A faster incremental SHA-256 than the built-in one, where the runtime has one. */
  readonly createSha256?: (() => Sha256) | undefined;
  /** A faster digest of what is in memory than WebCrypto, for small nodes and those that are read in bulk. */
  readonly digest?: NodeDigest | undefined;
  /** Zstandard, where the runtime has it. Without it nodes travel in packs as they are. */
  readonly zstd?: Zstd | undefined;
}

export const CREATE_CLIENT: CheckedCall = { name: 'createClient', requestOperation: 'createClient' };

/** Throws CasError INVALID_ARGUMENT. The address and the ids are judged where they are parsed. */
export function checkClientOptions(options: ClientOptions): void {
  checkObject(CREATE_CLIENT, 'the options', options);
  const { token, fetch, clock, random, retry, timeouts, contentBytesMax, createSha256, digest, zstd } =
    options;
  if (typeof token !== 'string' && typeof token !== 'function') {
    const found = describeValue(token);
    throw invalidArgument(
      CREATE_CLIENT,
      `token must be a string, or a function that gives one; it is ${found}`,
    );
  }
  for (const [name, given] of Object.entries({ fetch, random, createSha256, digest })) {
    if (given !== undefined) checkFunction(CREATE_CLIENT, name, given);
  }
  for (const [name, given] of Object.entries({ clock, zstd, retry, timeouts })) {
    if (given !== undefined) checkObject(CREATE_CLIENT, name, given);
  }
  for (const [name, value] of Object.entries(retry ?? {})) {
    const min = name === 'attemptsMax' ? 1 : 0;
    if (value !== undefined) checkNumber(CREATE_CLIENT, `retry.${name}`, value, min);
  }
  for (const [name, value] of Object.entries(timeouts ?? {})) {
    if (value !== undefined) checkNumber(CREATE_CLIENT, `timeouts.${name}`, value, 1);
  }
  if (contentBytesMax !== undefined)
    checkInteger(CREATE_CLIENT, 'contentBytesMax', contentBytesMax, { min: 0 });
}

/** `given` over `defaults`. Leaves out options that are `undefined`: a retry policy of `undefined` attempts would never end. */
export function withDefaults<T extends object>(defaults: T, given: Partial<T> | undefined): T {
  const stated = Object.entries(given ?? {}).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(stated) };
}
