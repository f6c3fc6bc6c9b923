/** Upload generations: names that are never given twice. */
import type { Core } from './core.ts';
import type { Generation } from './model.ts';

const TIME_DIGITS = 12;
const RANDOM_BYTES = 10;

/** 48 bits of creation time, then 80 random bits: the age of an object can be read from its key alone. */
export function createGeneration(core: Pick<Core, 'random'>, now: number): Generation {
  const time = now.toString(16).padStart(TIME_DIGITS, '0');
  return time + Buffer.from(core.random.bytes(RANDOM_BYTES)).toString('hex');
}
