/** Reading the fields of an untrusted JSON answer. A field that is missing or of the wrong form is MalformedAnswer. */
import { type Hash, isHash } from '@holdfast/protocol';

/** An answer that this API never gives. */
export class MalformedAnswer extends Error {
  override readonly name = 'MalformedAnswer';
  readonly status: number | undefined;

  constructor(message: string, status?: number) {
    super(message);
    this.status = status;
  }
}

export type Fields = Readonly<Record<string, unknown>>;

export function parseFields(value: unknown, name: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw malformed(name, 'an object');
  return value as Fields;
}

export function malformed(name: string, expected: string): MalformedAnswer {
  return new MalformedAnswer(`${name} in the answer is not ${expected}`);
}

/** Own properties only: a field named as something every object has must still be sent to count. */
export function fieldOf(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

export function parseInteger(fields: Fields, name: string, min = 0): number {
  const value = fieldOf(fields, name);
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min) {
    throw malformed(name, min === 0 ? 'an integer of 0 or more' : 'an integer');
  }
  return value;
}

export function parseText(fields: Fields, name: string): string {
  const value = fieldOf(fields, name);
  if (typeof value !== 'string' || value === '') throw malformed(name, 'a non-empty string');
  return value;
}

export function parseBoolean(fields: Fields, name: string): boolean {
  const value = fieldOf(fields, name);
  if (typeof value !== 'boolean') throw malformed(name, 'true or false');
  return value;
}

export function parseHash(fields: Fields, name: string): Hash {
  const value = fieldOf(fields, name);
  if (!isHash(value)) throw malformed(name, '64 lowercase hexadecimal characters');
  return value;
}

export function parseList(fields: Fields, name: string): readonly unknown[] {
  const value = fieldOf(fields, name);
  if (!Array.isArray(value)) throw malformed(name, 'an array');
  return value;
}

export function parseHashes(fields: Fields, name: string): readonly Hash[] {
  const list = parseList(fields, name);
  if (!list.every(isHash)) throw malformed(name, 'a list of hashes');
  return list;
}
