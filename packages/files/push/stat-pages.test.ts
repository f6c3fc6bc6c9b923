/** Pages of seen entries: what goes in comes out; anything else is refused, not misread. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { isSameFingerprint, packPage, type SeenEntry, unpackPage } from './stat-pages.ts';

const numbers = fc.oneof(fc.maxSafeNat(), fc.double({ noNaN: true }));
const fingerprints = fc.record({ size: numbers, mtimeMs: numbers, ctimeMs: numbers, inode: numbers });
const entries: fc.Arbitrary<SeenEntry> = fc.record({
  name: fc.uint8Array({ minLength: 1, maxLength: 255 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
  kind: fc.constantFrom('file' as const, 'directory' as const, 'symlink' as const),
  isExecutable: fc.boolean(),
  isIndexed: fc.boolean(),
  isSettled: fc.boolean(),
  fingerprint: fingerprints,
  hash: fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString('hex')),
  bytes: fc.maxSafeNat(),
  entryCount: fc.maxSafeNat(),
  mtimeNs: fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { nil: undefined }),
});

describe('pages', () => {
  test('give back what they were made of', () => {
    fc.assert(
      fc.property(fc.array(entries, { maxLength: 20 }), (page) => {
        expect(unpackPage(packPage(page))).toEqual(page);
      }),
    );
  });

  test('of any bytes are entries or a RangeError', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
        try {
          expect(packPage(unpackPage(bytes)).length).toBe(bytes.length);
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError);
        }
      }),
    );
  });
});

test('a fingerprint is the same only when every part is', () => {
  const one = { size: 1, mtimeMs: 2, ctimeMs: 3, inode: 4 };
  expect(isSameFingerprint(one, { ...one })).toBe(true);
  for (const part of Object.keys(one)) expect(isSameFingerprint(one, { ...one, [part]: 9 })).toBe(false);
});
