import { describe, expect, test } from 'bun:test';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import fc from 'fast-check';
import { compress } from '../test/pack-fixture.ts';
import { walkZstdFrame } from './zstd-frame.ts';

const MAGIC = [0x28, 0xb5, 0x2f, 0xfd];

function le(value: number, bytes: number): number[] {
  return Array.from({ length: bytes }, (_, index) => Math.floor(value / 256 ** index) % 256);
}

/** A block: 0 plain, 1 one byte many times. */
function block(type: number, size: number, isLast: boolean, body: readonly number[]): number[] {
  return [...le((size << 3) | (type << 1) | (isLast ? 1 : 0), 3), ...body];
}

const frame = (...parts: number[][]): Uint8Array => Uint8Array.from([...MAGIC, ...parts.flat()]);
const THREE = block(0, 3, true, [1, 2, 3]);
/** a window of 1 KiB, no size stated */
const SMALL_WINDOW = [0, 0];

describe('frames a record may hold', () => {
  test.each<[string, Uint8Array, number]>([
    ['no size stated', frame(SMALL_WINDOW, THREE), 3],
    ['one segment, size of 1 byte', frame([0x20, 3], THREE), 3],
    ['size of 2 bytes, 256 less', frame([0x60], le(300 - 256, 2), block(1, 300, true, [7])), 300],
    ['size of 4 bytes', frame([0xa0], le(3, 4), THREE), 3],
    ['size of 8 bytes', frame([0xe0], le(3, 8), THREE), 3],
    ['size beside a window', frame([0x80, 0], le(3, 4), THREE), 3],
    ['the unused bit', frame([0x10, 0], THREE), 3],
    ['a dictionary id of 0', frame([0x21, 0, 3], THREE), 3],
    ['a window of 8 MiB', frame([0, 13 << 3], THREE), 3],
    [
      'several blocks, one of them empty',
      frame(SMALL_WINDOW, block(1, 9, false, [0]), block(0, 0, true, [])),
      9,
    ],
  ])('%s', (_, bytes, length) => {
    expect(walkZstdFrame(bytes, length).fault).toBeUndefined();
    expect(zstdDecompressSync(bytes)).toHaveLength(length);
  });

  test('what the frame says of itself', () => {
    expect(walkZstdFrame(frame([0x24, 3], THREE, [0, 0, 0, 0]), 3).frame).toEqual({
      windowBytes: 3,
      headerLength: 6,
      statesSize: true,
      hasChecksum: true,
    });
    expect(walkZstdFrame(frame([0, 0x0b], THREE), 3).frame).toEqual({
      windowBytes: 2048 + 768,
      headerLength: 6,
      statesSize: false,
      hasChecksum: false,
    });
  });

  test('whatever the library writes, at any level, with and without checksum', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 400 }),
        fc.integer({ min: 1, max: 3000 }),
        fc.integer({ min: 1, max: 19 }),
        fc.boolean(),
        (seed, times, level, hasChecksum) => {
          const bytes = Buffer.concat(Array.from({ length: times }, () => seed));
          const params = {
            [constants.ZSTD_c_compressionLevel]: level,
            [constants.ZSTD_c_checksumFlag]: hasChecksum ? 1 : 0,
          };
          const walk = walkZstdFrame(zstdCompressSync(bytes, { params }), bytes.length);
          expect(walk.fault).toBeUndefined();
          expect(walk.frame?.hasChecksum).toBe(hasChecksum);
        },
      ),
      { numRuns: 100 },
    );
  });
});

describe('frames no record may hold', () => {
  const good = compress(Buffer.from('abc '.repeat(200)), true);
  test.each<[string, Uint8Array, number, RegExp]>([
    ['nothing', new Uint8Array(0), 1, /does not begin/],
    ['a skippable frame', Uint8Array.from([0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]), 1, /does not begin/],
    ['the old magic', Uint8Array.from([0x27, 0xb5, 0x2f, 0xfd, 0, 0]), 1, /does not begin/],
    ['the magic alone', frame(), 1, /cut off inside its header/],
    ['no window', frame([0]), 1, /cut off inside its header/],
    ['half a size', frame([0xe0], le(3, 7)), 3, /cut off inside its header/],
    ['the reserved bit', frame([0x28, 3], THREE), 3, /reserved bit/],
    ['a dictionary', frame([0x21, 5, 3], THREE), 3, /needs a dictionary/],
    ['a dictionary, its id in 4 bytes', frame([0x23], le(2 ** 31, 4), [3], THREE), 3, /needs a dictionary/],
    ['a size too small', frame([0x20, 3], THREE), 4, /states 3 bytes/],
    ['another size', frame([0x20, 4], THREE), 3, /states 4 bytes/],
    ['a size beyond 2^53', frame([0xe0], le(2 ** 63, 8), THREE), 3, /states/],
    ['a window over 8 MiB', frame([0, (13 << 3) | 1], THREE), 3, /needs a window of 9437184/],
    ['the largest window', frame([0, 0xff], THREE), 3, /needs a window/],
    ['no block', frame(SMALL_WINDOW), 3, /cut off before its last block/],
    ['no last block', frame(SMALL_WINDOW, block(0, 3, false, [1, 2, 3])), 3, /cut off before its last block/],
    ['half a block', frame(SMALL_WINDOW, THREE.slice(0, 5)), 3, /cut off inside its last block/],
    ['the reserved block type', frame(SMALL_WINDOW, block(3, 1, true, [0])), 3, /reserved type/],
    [
      'a block over its window',
      frame(SMALL_WINDOW, block(1, 1025, true, [0])),
      2000,
      /a block of 1025 bytes/,
    ],
    ['a block over 128 KiB', frame([0, 13 << 3], block(1, 131_073, true, [0])), 200_000, /a block of 131073/],
    [
      'plain blocks beyond the length',
      frame(SMALL_WINDOW, block(1, 9, false, [0]), THREE),
      11,
      /more than 11 bytes/,
    ],
    ['half a checksum', good.subarray(0, -1), 800, /cut off/],
    ['a byte behind it', Buffer.concat([good, Buffer.alloc(1)]), 800, /1 byte stands behind/],
    ['a second frame', Buffer.concat([good, good]), 800, /stand behind the frame/],
  ])('%s', (_, bytes, length, fault) => {
    expect(walkZstdFrame(bytes, length).fault).toMatch(fault);
  });

  test('no bytes make it throw, and each way of cutting a frame off is found', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.nat(5000), (bytes, length) => {
        for (const input of [bytes, frame([...bytes])]) {
          const walk = walkZstdFrame(input, length);
          expect(walk.fault === undefined).toBe(walk.frame !== undefined);
        }
      }),
    );
    for (let length = 0; length < good.length; length++) {
      expect(walkZstdFrame(good.subarray(0, length), 800).fault).toBeDefined();
    }
  });
});
