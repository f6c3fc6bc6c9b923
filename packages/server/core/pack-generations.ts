/** Names of packs and of the records in them (core/packs/README.md). */
import { createGeneration, TIME_DIGITS } from './generation.ts';
import type { Generation } from './model.ts';

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
