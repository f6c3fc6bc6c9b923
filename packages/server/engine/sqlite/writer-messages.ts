/** What the thread that writes rows and the thread that asks for it tell each other, many things in one message. */
import type { Committed } from './node-cache.ts';
import type { RowWriter } from './row-writer.ts';
import type { PackedError } from './thread-errors.ts';

export type WriterVerb = Exclude<keyof RowWriter, 'drain' | 'close'>;

/** `transact` says its body by name. */
export type Order = readonly [id: number, verb: WriterVerb, ...parameters: unknown[]];

export interface ToWriter {
  readonly orders: readonly Order[];
  /** after them, close and end */
  readonly isLast: boolean;
}

export type Outcome =
  | readonly [id: number, isDone: true, value?: unknown]
  | readonly [id: number, isDone: false, error: PackedError];

/** In this order: what was committed is known before anyone is told of it. */
export interface FromWriter {
  readonly commits: readonly Committed[];
  readonly outcomes: readonly Outcome[];
  readonly fatal: PackedError | undefined;
}

/** As text where that loses nothing: text crosses between threads in half the time that a copy of objects takes. */
export function packMessage(message: ToWriter | FromWriter): unknown {
  return isTextual(message) ? JSON.stringify(message) : message;
}

export function unpackMessage<T extends ToWriter | FromWriter>(packed: unknown): T {
  return (typeof packed === 'string' ? JSON.parse(packed) : packed) as T;
}

/** A field that is undefined may as well be missing; an element of an array may not. */
function isTextual(value: unknown): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return Number.isFinite(value);
    case 'object':
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (Array.isArray(value)) {
    for (const element of value) if (!isTextual(element)) return false;
    return true;
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  const fields = value as Readonly<Record<string, unknown>>;
  for (const name in fields) if (fields[name] !== undefined && !isTextual(fields[name])) return false;
  return true;
}
