/** Upload generations: names that are never given twice. */
import type { Generation } from './model.ts';
import type { Randomness } from './ports.ts';

/** Hexadecimal digits of the time at the start of a generation. */
const TIME_DIGITS = 12;

/** The random part of a generation, made before the transaction that may use it. */
export function makeGenerationDigits(random: Randomness): string {
  return Buffer.from(random.bytes(10)).toString('hex');
}

/** 48 bits of creation time, then 80 random bits: the age of an object can be read from its key alone. */
export function createGeneration(now: number, randomDigits: string): Generation {
  return now.toString(16).padStart(TIME_DIGITS, '0') + randomDigits;
}

/** Whether an object can have this name. A file with any other name is not ours. */
export const isGeneration = (name: string): boolean => /^[0-9a-f]{32}$/.test(name);

/** ms; when the generation was created */
export function createdAtOf(generation: Generation): number {
  return Number.parseInt(generation.slice(0, TIME_DIGITS), 16);
}

const NUMBER_DIGITS = 4;

/** `digits`: as `makeGenerationDigits` makes them. */
export function createPackGeneration(now: number, digits: string): Generation {
  return createGeneration(now, '0'.repeat(NUMBER_DIGITS) + digits.slice(NUMBER_DIGITS));
}

/** The pack that a record with this generation came in, if it came in one. */
export const packOf = (record: Generation): Generation =>
  record.slice(0, TIME_DIGITS) + '0'.repeat(NUMBER_DIGITS) + record.slice(TIME_DIGITS + NUMBER_DIGITS);

/** The same in every process that publishes the record. `index` counts from 0. */
export function recordGeneration(pack: Generation, index: number): Generation {
  const number = (index + 1).toString(16).padStart(NUMBER_DIGITS, '0');
  return pack.slice(0, TIME_DIGITS) + number + pack.slice(TIME_DIGITS + NUMBER_DIGITS);
}
