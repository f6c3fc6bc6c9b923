import { describe, expect, test } from 'bun:test';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { MIB_BYTES } from '../limits.ts';
import { createUnzstd, walkZstdFrame, ZstdFrameError } from './zstd-frame.ts';

const decompressBounded = (bytes: Uint8Array, maxOutputLength: number) =>
  zstdDecompressSync(bytes, { maxOutputLength });
const DECODERS = {
  both: createUnzstd({ decompressStated: (bytes) => Bun.zstdDecompressSync(bytes), decompressBounded }),
  bounded: createUnzstd({ decompressBounded }),
};

function frameOf(bytes: Uint8Array, statesSize: boolean): Uint8Array {
  const params = {
    [constants.ZSTD_c_checksumFlag]: 1,
    [constants.ZSTD_c_contentSizeFlag]: statesSize ? 1 : 0,
  };
  return zstdCompressSync(bytes, { params });
}

const PLAIN = Buffer.alloc(128 * MIB_BYTES, 'as long as this is not one byte alone, blocks are compressed ');

/** A compressed block cannot be told from outside: this one unpacks to far more than the frame may. */
function bombOf(statedBytes: number | undefined): Uint8Array {
  const real = zstdCompressSync(PLAIN, { params: { [constants.ZSTD_c_windowLog]: 20 } });
  const walk = walkZstdFrame(real, PLAIN.length);
  const blocks = real.subarray(walk.frame!.headerLength);
  const header = [0x28, 0xb5, 0x2f, 0xfd];
  if (statedBytes === undefined) return Buffer.concat([Uint8Array.from([...header, 0, 10 << 3]), blocks]);
  const size = Buffer.alloc(4);
  size.writeUInt32LE(statedBytes);
  return Buffer.concat([Uint8Array.from([...header, 0x80, 10 << 3]), size, blocks]);
}

describe.each(Object.entries(DECODERS))('a decoder: %s', (_, unzstd) => {
  const unpack = (frame: Uint8Array, length: number) => {
    const walk = walkZstdFrame(frame, length);
    expect(walk.fault).toBeUndefined();
    return unzstd(frame, length, walk.frame!);
  };
  const bytes = Buffer.from(Array.from({ length: 5000 }, (__, index) => (index * index) % 251));

  test.each([true, false])('unpacks a frame; its size is stated: %p', (statesSize) => {
    expect(Buffer.from(unpack(frameOf(bytes, statesSize), bytes.length))).toEqual(bytes);
  });

  test.each([true, false])(
    'finds any flipped bit behind the header; its size is stated: %p',
    (statesSize) => {
      const good = frameOf(bytes.subarray(0, 300), statesSize);
      const { headerLength } = walkZstdFrame(good, 300).frame!;
      for (let index = headerLength; index < good.length; index++) {
        const bad = good.slice();
        bad[index]! ^= 1 << (index % 8);
        const walk = walkZstdFrame(bad, 300);
        if (walk.fault !== undefined) continue;
        expect(() => unzstd(bad, 300, walk.frame)).toThrow(ZstdFrameError);
      }
    },
  );

  test('never gives more than it may', () => {
    const frame = frameOf(bytes, false);
    expect(() => unpack(frame, bytes.length - 1)).toThrow(/unpacks to more than 4999 bytes/);
  });

  test.each([MIB_BYTES, undefined])('a bomb that states %p bytes takes little memory', (stated) => {
    const bomb = bombOf(stated);
    expect(bomb.length).toBeLessThan(64 * 1024);
    expect(() => unpack(bomb, MIB_BYTES)).toThrow(ZstdFrameError);
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    for (let round = 0; round < 20; round++) expect(() => unpack(bomb, MIB_BYTES)).toThrow(ZstdFrameError);
    expect(process.memoryUsage.rss() - before).toBeLessThan(64 * MIB_BYTES);
  });

  test('fewer bytes than stated is a fault', () => {
    const empty = Uint8Array.from([0x28, 0xb5, 0x2f, 0xfd, 0x20, 9, 1, 0, 0]);
    expect(() => unpack(empty, 9)).toThrow(ZstdFrameError);
  });
});

test('a decoder that fails for want of memory says nothing of the frame', () => {
  for (const code of ['ZSTD_error_memory_allocation', 'ENOMEM', undefined]) {
    const failure = Object.assign(new Error('no memory'), code === undefined ? {} : { code });
    const unzstd = createUnzstd({
      decompressBounded: () => {
        throw failure;
      },
    });
    expect(() => unzstd(new Uint8Array(0), 1, { statesSize: true } as never)).toThrow(failure);
  }
});
