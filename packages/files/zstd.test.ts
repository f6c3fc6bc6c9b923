import { describe, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import * as zlib from 'node:zlib';
import type { Zstd } from '@holdfast/client/internal';
import { walkZstdFrame, ZstdFrameError } from '@holdfast/protocol';
import { findZstd } from './zstd.ts';

const { zstdCompressSync, zstdDecompressSync, constants } = zlib;
const TEXT = Buffer.from('a line of text, and another one '.repeat(300));
const PACK_NODE_BYTES_MAX = 8 * 1024 * 1024;

const RUNTIMES = [
  ['this one', findZstd()],
  ['Bun', findZstd({ bun: Bun, zlib: () => zlib })],
  [
    'Node from 22.15 on',
    findZstd({ bun: undefined, zlib: () => ({ zstdCompressSync, zstdDecompressSync, constants }) }),
  ],
] as const;

describe.each(RUNTIMES)('zstd of %s', (_, found) => {
  const zstd = found as Zstd;
  const unpack = (frame: Uint8Array, length: number): Uint8Array => {
    const walk = walkZstdFrame(frame, length);
    expect(walk.fault).toBeUndefined();
    return zstd.unzstd(frame, length, walk.frame!);
  };

  test('makes frames that a pack may hold, of any size, and unpacks them', () => {
    const large = Buffer.alloc(PACK_NODE_BYTES_MAX);
    for (let at = 0; at < large.length; at += 4) large.writeUInt32LE((at * 2_654_435_761) >>> 12, at);
    for (const bytes of [Buffer.from('x'), TEXT, large]) {
      expect(Buffer.from(unpack(zstd.compress!(bytes)!, bytes.length)).equals(bytes)).toBe(true);
    }
    expect(zstd.compress!(TEXT)!.length).toBeLessThan(TEXT.length / 10);
  });

  test('leaves out what would save nothing, and only that', () => {
    for (const length of [700, 5_000, 20_000, 600_000]) {
      const random = randomBytes(length);
      expect(zstd.compress!(random)).toBeUndefined();
      // As base64: a quarter is saved by the entropy alone.
      const base64 = Buffer.from(random.toString('base64'));
      expect(zstd.compress!(base64)!.length).toBeLessThan(0.9 * base64.length);
    }
  });

  test('makes frames on another thread that are no larger, where the runtime offers that', async () => {
    const aside = zstd.compressAside ?? ((bytes: Uint8Array) => Promise.resolve(zstd.compress!(bytes)!));
    const frame = (await aside(TEXT))!;
    expect(Buffer.from(unpack(frame, TEXT.length)).equals(TEXT)).toBe(true);
    expect(frame.length).toBeLessThanOrEqual(zstd.compress!(TEXT)!.length);
    expect(zstd.compressAside?.(randomBytes(20_000))).toBeUndefined();
  });

  test('takes back the memory of a frame that was copied, and of no other', () => {
    const [one, other] = [zstd.compress!(TEXT)!, zstd.compress!(TEXT)!];
    zstd.release?.(one);
    expect(one.length === 0).toBe(zstd.release !== undefined);
    expect(Buffer.from(unpack(other, TEXT.length)).equals(TEXT)).toBe(true);
    const shared = other.subarray(0, other.length - 1);
    zstd.release?.(shared);
    expect(shared.length).toBe(other.length - 1);
  });

  test('tells a bad frame from its own failures', () => {
    const params = { [constants.ZSTD_c_checksumFlag]: 1 };
    const frame = zstdCompressSync(TEXT, { params });
    frame[frame.length - 1]! ^= 1;
    expect(() => unpack(frame, TEXT.length)).toThrow(ZstdFrameError);
  });
});

test('a runtime without it has none', () => {
  expect(findZstd({ bun: undefined, zlib: () => ({ constants: {} }) })).toBeUndefined();
  expect(findZstd({ bun: undefined, zlib: () => undefined })).toBeUndefined();
  expect(findZstd({ bun: {} as typeof Bun, zlib: () => ({ constants: {} }) })).toBeUndefined();
});
