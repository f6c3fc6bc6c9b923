import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { createdAtOf } from '../../core/generation.ts';
import { ObjectKeys } from './object-key.ts';

const digits = fc.stringMatching(/^[0-9a-f]{32}$/);

test('a key says which object it is, and nothing else is a key', () => {
  for (const prefix of ['', 'a/', 'a.b/c_d/']) {
    const keys = new ObjectKeys(prefix);
    const property = fc.property(digits, digits, (spaceKey, generation) => {
      const key = keys.keyOf({ spaceKey, generation });
      expect(keys.findObject(key)).toEqual({ spaceKey, generation });
      expect(keys.findProbe(key)).toBeUndefined();
      expect(keys.findProbe(keys.probeOf(generation))).toBe(generation);
      expect(keys.findObject(keys.probeOf(generation))).toBeUndefined();
    });
    fc.assert(property);
    const near = fc.tuple(
      digits,
      digits,
      fc.nat({ max: 100 }),
      fc.string({ maxLength: 2 }),
      fc.nat({ max: 2 }),
    );
    fc.assert(
      fc.property(near, ([spaceKey, generation, at, put, cut]) => {
        const key = keys.keyOf({ spaceKey, generation });
        const changed = key.slice(0, at) + put + key.slice(at + cut);
        const found = keys.findObject(changed);
        if (found !== undefined) expect(keys.keyOf(found)).toBe(changed);
      }),
      { numRuns: 1000 },
    );
  }
});

test('keys spread over 256 prefixes, and a generation tells when it was made', () => {
  const keys = new ObjectKeys('');
  const at = 1_800_000_000_000;
  const generations = Array.from(
    { length: 10_000 },
    (_, index) => at.toString(16).padStart(12, '0') + index.toString(16).padStart(20, '0'),
  );
  const counts = new Map<string, number>();
  for (const generation of generations) {
    const [, spread = ''] = keys.keyOf({ spaceKey: '0'.repeat(32), generation }).split('/');
    counts.set(spread, (counts.get(spread) ?? 0) + 1);
    expect(createdAtOf(generation)).toBe(at);
  }
  expect(counts.size).toBe(256);
  expect(Math.max(...counts.values())).toBeLessThan(100);
});
