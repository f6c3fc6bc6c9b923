/**
 * Checks of what a caller gives. Types say the same, but JavaScript does not read them, and an `undefined` or `NaN` that went on the
 * wire would come back as an error about something else. Every refusal is CasError INVALID_ARGUMENT, before anything is sent.
 */
import { type Hash, isHash } from '@holdfast/protocol';
import { CasError, type RequestOperation } from './errors.ts';

export interface CheckedCall {
  /** as the caller wrote it */
  readonly name: string;
  readonly requestOperation: RequestOperation;
}

export function invalidArgument(call: CheckedCall, reason: string, cause?: unknown): CasError {
  const { name, requestOperation } = call;
  return new CasError(`${name}: ${reason}`, { code: 'INVALID_ARGUMENT', requestOperation, cause });
}

/** Describes a value without showing it: someone may have given a token in the wrong place. */
export function describeValue(value: unknown): string {
  if (value === null) return 'null';
  if (typeof value === 'string')
    return value === '' ? 'an empty string' : `a string of ${value.length} characters`;
  if (typeof value === 'number')
    return Number.isSafeInteger(value) ? `the number ${value}` : `${value}, no whole number`;
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object') return `an object (${Object.prototype.toString.call(value).slice(8, -1)})`;
  return value === undefined ? 'undefined' : `a ${typeof value}`;
}

export function checkHash(call: CheckedCall, hash: unknown, what = 'a hash'): asserts hash is Hash {
  if (isHash(hash)) return;
  const isUppercase = typeof hash === 'string' && isHash(hash.toLowerCase());
  const found = isUppercase ? 'it has uppercase letters' : `it is ${describeValue(hash)}`;
  throw invalidArgument(call, `${what} is 64 lowercase hexadecimal characters; ${found}`);
}

export function checkInteger(
  call: CheckedCall,
  what: string,
  value: unknown,
  { min, max = Number.MAX_SAFE_INTEGER }: { readonly min: number; readonly max?: number },
): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return;
  const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`;
  throw invalidArgument(call, `${what} must be an integer ${range}; it is ${describeValue(value)}`);
}

/** Any time above 0: the service clamps it. */
export function checkLeaseDuration(call: CheckedCall, value: unknown): asserts value is number {
  checkInteger(call, 'leaseDurationMs', value, { min: 1 });
}

export function checkObject(call: CheckedCall, what: string, value: unknown): asserts value is object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return;
  throw invalidArgument(call, `${what} must be an object; it is ${describeValue(value)}`);
}

export function checkBytes(call: CheckedCall, what: string, value: unknown): asserts value is Uint8Array {
  if (isBytes(value)) return;
  throw invalidArgument(call, `${what} must be a Uint8Array; it is ${describeValue(value)}`);
}

/** Also of another realm, such as a frame of the page. */
export function isBytes(value: unknown): value is Uint8Array {
  return value instanceof Uint8Array || Object.prototype.toString.call(value) === '[object Uint8Array]';
}

export function isBlob(value: unknown): value is Blob {
  if (typeof Blob !== 'undefined' && value instanceof Blob) return true;
  const name = Object.prototype.toString.call(value);
  return name === '[object Blob]' || name === '[object File]';
}

export function checkFunction(call: CheckedCall, what: string, value: unknown): void {
  if (typeof value === 'function') return;
  throw invalidArgument(call, `${what} must be a function; it is ${describeValue(value)}`);
}

/** The last argument of every call: an object, perhaps with a signal. */
export function checkOptions(call: CheckedCall, options: unknown): void {
  if (options === undefined) return;
  checkObject(call, 'the options', options);
  const { signal } = options as { readonly signal?: unknown };
  if (signal === undefined) return;
  const isSignal =
    typeof signal === 'object' && signal !== null && 'aborted' in signal && 'addEventListener' in signal;
  if (!isSignal) throw invalidArgument(call, `signal must be an AbortSignal; it is ${describeValue(signal)}`);
}

export function checkIterable(call: CheckedCall, what: string, value: unknown): void {
  const isIterable =
    typeof value === 'object' &&
    value !== null &&
    (Symbol.iterator in value || Symbol.asyncIterator in value);
  if (!isIterable) throw invalidArgument(call, `${what} must be an array or another iterable`);
}

export function checkArray(call: CheckedCall, what: string, value: unknown): void {
  if (Array.isArray(value)) return;
  throw invalidArgument(call, `${what} must be an array; it is ${describeValue(value)}`);
}

/** Checks that a given client, source or sink has the methods that the SDK calls. */
export function checkMethod(call: CheckedCall, what: string, value: unknown, method: string): void {
  const isObject = typeof value === 'object' && value !== null;
  if (isObject && typeof (value as Record<string, unknown>)[method] === 'function') return;
  throw invalidArgument(call, `${what} must be an object with ${method}(); it is ${describeValue(value)}`);
}

export function checkNumber(call: CheckedCall, what: string, value: unknown, min: number): void {
  if (typeof value === 'number' && value >= min) return;
  throw invalidArgument(call, `${what} must be a number of ${min} or more; it is ${describeValue(value)}`);
}

export function checkHashes(call: CheckedCall, what: string, value: unknown): void {
  if (!Array.isArray(value)) {
    throw invalidArgument(call, `${what} must be an array of hashes; it is ${describeValue(value)}`);
  }
  const wrong = value.findIndex((hash) => !isHash(hash));
  if (wrong >= 0) checkHash(call, value[wrong], `${what}[${wrong}]`);
}
