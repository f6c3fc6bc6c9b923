/** What `createClient` was given, checked. */
import {
  type CheckedCall,
  checkFunction,
  checkInteger,
  checkObject,
  describeValue,
  invalidArgument,
} from './arguments.ts';
import type { ClientOptions } from './client.ts';

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
    if (value !== undefined) checkTime(`retry.${name}`, value, min);
  }
  for (const [name, value] of Object.entries(timeouts ?? {})) {
    if (value !== undefined) checkTime(`timeouts.${name}`, value, 1);
  }
  if (contentBytesMax !== undefined)
    checkInteger(CREATE_CLIENT, 'contentBytesMax', contentBytesMax, { min: 0 });
}

/** Fractions do no harm here. */
function checkTime(name: string, value: unknown, min: number): void {
  if (typeof value === 'number' && value >= min) return;
  throw invalidArgument(
    CREATE_CLIENT,
    `${name} must be a number of ${min} or more; it is ${describeValue(value)}`,
  );
}

/** `given` over `defaults`. What is given as `undefined` is left out: a retry policy of `undefined` attempts would never end. */
export function withDefaults<T extends object>(defaults: T, given: Partial<T> | undefined): T {
  const stated = Object.entries(given ?? {}).filter(([, value]) => value !== undefined);
  return { ...defaults, ...Object.fromEntries(stated) };
}
