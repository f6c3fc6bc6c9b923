/** A bounded part of the fuzzing: each parser refuses by its own error alone, and what it accepts is written again as it was. */
import { expect, test } from 'bun:test';
import { runFuzz } from './run-fuzz.ts';
import { FUZZ_TARGETS } from './targets.ts';

const SEED = 20261127;
const INPUTS = 1_500;

test('no parser is led astray by inputs that are nearly good', () => {
  const { inputs, found } = runFuzz({ seed: SEED, inputs: INPUTS });
  expect(found).toEqual([]);
  expect(inputs).toBe(INPUTS * FUZZ_TARGETS.length);
});

test('every seed is answered, not refused', () => {
  for (const { seeds, run, name } of FUZZ_TARGETS)
    for (const seed of seeds) expect(() => run(seed), name).not.toThrow();
});

test('a parser that breaks is found, with the input that shows it', () => {
  const broken = {
    name: 'broken',
    seeds: [Uint8Array.of(1, 2, 3)],
    refusals: ['RangeError'],
    run(input: Uint8Array) {
      if (input.length > 6) throw new RangeError('too long');
      if (input[0] === 0xff) throw new TypeError('a fault');
      return 'good';
    },
  };
  const { found } = runFuzz({ seed: SEED, inputs: 5_000, targets: [broken] });
  expect(found.length).toBeGreaterThan(0);
  expect(found[0]).toMatchObject({ target: 'broken', error: 'TypeError: a fault' });
  expect(Buffer.from(found[0]?.input ?? '', 'base64')[0]).toBe(0xff);
});
