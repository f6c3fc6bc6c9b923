import { describe, expect, test } from 'bun:test';
import type { ContentRow, NodeRow } from '../model.ts';
import { contentSum, isSum, mixValues, NODE_WEIGHTS, nodeSum, nodeSumChange } from './row-sums.ts';

const SPACE = 7;
const ROW: NodeRow = {
  hash: 'ab'.repeat(32),
  state: 'ready',
  size: 5000,
  canonicalSize: 5100,
  contentType: 'text/plain',
  refs: Uint8Array.from({ length: 64 }, (_, index) => index * 3),
  generation: '0192'.repeat(8),
  storage: 'object',
  storedSize: 5100,
  leaseStartedAt: 1_790_000_000_000,
  leaseExpiresAt: 1_790_000_360_000,
  childRefCount: 2,
  rootRefCount: 1,
  heldDomainCount: 1,
  waitingTouchedAt: 0,
  claimHeldUntil: 0,
};

const SAFE_BITS = 52;

/** Each of these rows differs from ROW by one bit. */
function* flippedRows(): Generator<[string, NodeRow]> {
  for (const [name, value] of Object.entries(ROW)) {
    if (typeof value === 'number') {
      for (let bit = 0; bit < SAFE_BITS; bit++) {
        const flipped = Number(BigInt.asIntN(64, BigInt(value) ^ (1n << BigInt(bit))));
        yield [`${name} ${bit}`, { ...ROW, [name]: flipped }];
      }
    } else if (value instanceof Uint8Array) {
      for (let bit = 0; bit < value.length * 8; bit++) {
        const flipped = value.slice();
        flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
        yield [`${name} ${bit}`, { ...ROW, [name]: flipped }];
      }
    } else if (name !== 'state' && name !== 'storage') {
      for (let at = 0; at < value.length; at++) {
        for (let bit = 0; bit < 8; bit++) {
          const code = value.charCodeAt(at) ^ (1 << bit);
          const flipped = value.slice(0, at) + String.fromCharCode(code) + value.slice(at + 1);
          yield [`${name} ${at}.${bit}`, { ...ROW, [name]: flipped }];
        }
      }
    }
  }
  for (const state of ['waiting', 'rotten', 'claimed'] as const) yield [state, { ...ROW, state }];
  for (const storage of ['inline', 'packed'] as const) yield [storage, { ...ROW, storage }];
}

describe('sums of rows', () => {
  test('one wrong bit of any value of a node gives another sum', () => {
    const sum = nodeSum(SPACE, ROW);
    expect(isSum(sum, nodeSum(SPACE, { ...ROW }))).toBe(true);
    expect(nodeSum(SPACE + 1, ROW)).not.toBe(sum);
    for (const [what, row] of flippedRows()) {
      if (isSum(sum, nodeSum(SPACE, row))) throw new Error(`the sum does not see ${what}`);
    }
  });

  test('weights are odd, and no two are the same', () => {
    const weights = Object.values(NODE_WEIGHTS);
    expect(weights.every((weight) => weight % 2 === 1)).toBe(true);
    expect(new Set(weights).size).toBe(weights.length);
  });

  test('a change is added to the sum, and hides no wrong bit', () => {
    const after: NodeRow = {
      ...{ ...ROW, state: 'claimed', storage: 'packed', storedSize: 3, leaseStartedAt: 5, leaseExpiresAt: 9 },
      ...{ childRefCount: 0, rootRefCount: 4, heldDomainCount: 3, waitingTouchedAt: 8, claimHeldUntil: 6 },
      generation: '0193'.repeat(8),
    };
    const change = nodeSumChange(ROW, after);
    const sum = nodeSum(SPACE, ROW) + change;
    expect(isSum(sum, nodeSum(SPACE, after))).toBe(true);
    expect(isSum(sum, nodeSum(SPACE, { ...after, size: ROW.size ^ 1 }))).toBe(false);
    const most: NodeRow = { ...ROW, rootRefCount: Number.MAX_SAFE_INTEGER, leaseExpiresAt: 8.64e15 };
    const toMost = nodeSum(SPACE, ROW) + nodeSumChange(ROW, most);
    expect(isSum(toMost, nodeSum(SPACE, most))).toBe(true);
  });

  test('the place of content is in its sum', () => {
    const row: ContentRow = {
      ...{ generation: '01'.repeat(16), canonicalSize: 10, integrity: new Uint8Array(8) },
      ...{ inlineBytes: undefined, urlExpiresAt: 0 },
      packed: { pack: '02'.repeat(16), offset: 12, storedLength: 9, codec: 0 },
    };
    const sum = contentSum(SPACE, row);
    expect(contentSum(SPACE, { ...row, packed: undefined })).not.toBe(sum);
    for (const packed of [
      { pack: '03'.repeat(16), offset: 12, storedLength: 9, codec: 0 },
      { pack: '02'.repeat(16), offset: 13, storedLength: 9, codec: 0 },
      { pack: '02'.repeat(16), offset: 12, storedLength: 8, codec: 0 },
      { pack: '02'.repeat(16), offset: 12, storedLength: 9, codec: 1 },
    ] as const) {
      expect(contentSum(SPACE, { ...row, packed })).not.toBe(sum);
    }
  });

  test('the same values have the sum that rows on disks carry', () => {
    const bytes = Uint8Array.from({ length: 67 }, (_, index) => index * 3);
    expect(mixValues([7, 'ab'.repeat(32), 'text/plain', null, bytes, 2 ** 40 + 5, 'é€😀'])).toBe(
      14_651_196_179_800,
    );
  });

  test('values of different types and lengths are told apart', () => {
    const sums = [
      [null],
      [0],
      [''],
      [new Uint8Array()],
      ['0'],
      ['', ''],
      ['a', 'b'],
      ['ab'],
      [new Uint8Array(1)],
    ];
    expect(new Set(sums.map((each) => mixValues(each))).size).toBe(sums.length);
  });
});
