/** The checkpoint: whatever is formatted is parsed again, and nothing else is taken for one. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { USAGE_NONE } from '../core/usage-delta.ts';
import { type Checkpoint, formatCheckpoint, parseCheckpoint, startPhase } from './checkpoint.ts';
import { DOMAIN_KINDS, SPACE_KINDS } from './walk-space.ts';

const count = fc.nat({ max: Number.MAX_SAFE_INTEGER });
/** keys hold any text, request ids for one */
const text = fc.string({ unit: 'binary', maxLength: 300 });
const checkpoints: fc.Arbitrary<Checkpoint> = fc.record({
  epoch: text,
  phase: fc.constantFrom('copy', 'verify'),
  completeUntil: fc.option(text, { nil: undefined }),
  place: fc.record({
    kind: fc.constantFrom(...SPACE_KINDS, ...DOMAIN_KINDS),
    domain: text,
    after: fc.option(text, { nil: undefined }),
  }),
  counts: fc.record({ spaces: count, nodes: count, bytes: count }),
  tally: fc.record({
    nodeCount: count,
    readyContentBytes: count,
    readyStoredBytes: count,
    waitingBytes: count,
    notReadyNodeCount: count,
  }),
  damagedNodes: count,
});

describe('a checkpoint', () => {
  test('is parsed as it was formatted, from text that a database accepts', () => {
    fc.assert(
      fc.property(checkpoints, (checkpoint) => {
        const formatted = formatCheckpoint(checkpoint);
        expect(formatted).not.toContain('\u0000');
        expect(parseCheckpoint(formatted)).toEqual(checkpoint);
      }),
    );
  });

  test('is not parsed from any other text', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (other) => {
        expect(parseCheckpoint(other)).toBeUndefined();
      }),
    );
  });

  test('that is damaged anywhere, or cut off, is refused', () => {
    const formatted = Buffer.from(
      formatCheckpoint({ ...startPhase('epoch', 'verify', 3), completeUntil: '17' }),
    );
    for (let bit = 0; bit < formatted.length * 8; bit += 1) {
      const damaged = Buffer.from(formatted);
      damaged[bit >> 3] = (damaged[bit >> 3] as number) ^ (1 << (bit & 7));
      expect([bit, parseCheckpoint(damaged.toString())]).toEqual([bit, undefined]);
    }
    for (let length = 0; length < formatted.length; length += 1) {
      expect(parseCheckpoint(formatted.toString('utf8', 0, length))).toBeUndefined();
    }
  });

  test('with one field of another type is refused', () => {
    const sealed = (value: unknown): string => {
      const json = JSON.stringify(value);
      return new Bun.CryptoHasher('sha256').update(json).digest('hex').slice(0, 16) + json;
    };
    const whole = JSON.parse(formatCheckpoint(startPhase('epoch', 'copy', 0)).slice(16));
    const wrong: readonly [string, unknown][] = [
      ['version', 2],
      ['epoch', 7],
      ['phase', 'done'],
      ['completeUntil', 3],
      ['place', { kind: 'nodes', domain: 1 }],
      ['place', { kind: 'tables', domain: '' }],
      ['counts', { spaces: 1, nodes: 1 }],
      ['counts', { spaces: 1, nodes: -1, bytes: 0 }],
      ['tally', { ...USAGE_NONE, more: 1 }],
      ['damagedNodes', 0.5],
    ];
    expect(parseCheckpoint(sealed(whole))).toBeDefined();
    for (const [name, value] of wrong) {
      expect([name, parseCheckpoint(sealed({ ...whole, [name]: value }))]).toEqual([name, undefined]);
    }
  });
});
