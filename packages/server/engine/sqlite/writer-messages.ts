/** The messages between the thread that writes rows and the thread that asks for it. A message holds many orders or answers. */
import type { Committed } from './node-cache.ts';
import type { RowWriter } from './row-writer.ts';
import type { PackedError } from './thread-errors.ts';

export type WriterVerb = Exclude<keyof RowWriter, 'drain' | 'close'>;

/** `transact` names its body. */
export type Order = readonly [id: number, verb: WriterVerb, ...parameters: unknown[]];

export interface ToWriter {
  readonly orders: readonly Order[];
  /** after them, close and end */
  readonly isLast: boolean;
}

export type Outcome =
  | readonly [id: number, isDone: true, value?: unknown]
  | readonly [id: number, isDone: false, error: PackedError];

/** The reader handles the fields in this order: it knows of a commit before any request is answered. */
export interface FromWriter {
  readonly commits: readonly Committed[];
  readonly outcomes: readonly Outcome[];
  readonly fatal: PackedError | undefined;
}

/** Packs a message as text if that loses nothing: text crosses between threads in half the time of copied objects. */
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
