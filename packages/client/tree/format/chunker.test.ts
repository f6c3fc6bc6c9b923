import { describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { MIB_BYTES } from '@holdfast/protocol';
import fc from 'fast-check';
import { noise, seededBytes } from '../../test/tree-fixture.ts';
import { chunkStream, findChunkEnd } from './chunker.ts';
import { CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_BYTES_TARGET } from './tree-format.ts';

/** The rule of docs/tree-format.md word by word, without any speed. */
function cutBySpecification(bytes: Uint8Array): number[] {
  const gear = Array.from({ length: 256 }, (_, byte) =>
    createHash('sha256').update(Uint8Array.of(byte)).digest().readUInt32LE(0),
  );
  const hashAt = (position: number): number => {
    let sum = 0;
    for (let k = 0; k < 32; k += 1) sum += (gear[bytes[position - k] as number] as number) << k;
    return sum >>> 0;
  };
  const ends: number[] = [];
  for (let start = 0; start < bytes.length; ) {
    let length = Math.min(CHUNK_BYTES_MIN, bytes.length - start);
    for (; length < Math.min(CHUNK_BYTES_MAX, bytes.length - start); length += 1) {
      const zeroBits = length < CHUNK_BYTES_TARGET ? 22 : 18;
      if (hashAt(start + length - 1) >>> (32 - zeroBits) === 0) break;
    }
    start += length;
    ends.push(start);
  }
  return ends;
}

/** 32 bytes whose hash begins with exactly 17, 18, 21 and 22 zero bits. */
function findWindows(): Map<number, Uint8Array> {
  const gear = Int32Array.from({ length: 256 }, (_, byte) =>
    createHash('sha256').update(Uint8Array.of(byte)).digest().readInt32LE(0),
  );
  const found = new Map<number, Uint8Array>();
  const wanted = new Set([17, 18, 21, 22]);
  for (let seed = 1; found.size < wanted.size && seed < 50; seed += 1) {
    const bytes = noise(seed * 7919, 4 * MIB_BYTES);
    let hash = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      hash = ((hash << 1) + (gear[bytes[at] as number] as number)) | 0;
      if (at < 32 || (hash & (~0 << 15)) !== 0) continue;
      const zeroBits = Math.clz32(hash);
      if (wanted.has(zeroBits) && !found.has(zeroBits)) found.set(zeroBits, bytes.slice(at - 31, at + 1));
    }
  }
  return found;
}

function cutAtOnce(bytes: Uint8Array): number[] {
  const ends: number[] = [];
  for (let start = 0; start < bytes.length; start = ends.at(-1) as number) {
    ends.push(findChunkEnd(bytes, start, true) as number);
  }
  return ends;
}

async function cutStreamed(pieces: Iterable<Uint8Array>): Promise<Uint8Array[]> {
  return Array.fromAsync(chunkStream(pieces));
}

function endsOf(chunks: readonly Uint8Array[]): number[] {
  let end = 0;
  return chunks.map((chunk) => {
    end += chunk.length;
    return end;
  });
}

/** `bytes` in pieces of the given lengths, again and again. Each is overwritten once it was taken. */
function* split(bytes: Uint8Array, lengths: readonly number[]): Generator<Uint8Array> {
  for (let start = 0, turn = 0; start < bytes.length; turn += 1) {
    const length = lengths[turn % lengths.length] as number;
    const piece = bytes.slice(start, start + length);
    yield piece;
    piece.fill(0xee);
    start += length;
  }
}

describe('where files are cut', () => {
  const data = noise(7, 12 * MIB_BYTES);
  const ends = cutAtOnce(data);

  test('is where the specification says', () => {
    expect(ends.length).toBeGreaterThan(6);
    const part = data.subarray(0, 4 * MIB_BYTES);
    expect(cutAtOnce(part)).toEqual(cutBySpecification(part));
  }, 300_000);

  test('is where the specification says in bytes that repeat', () => {
    for (const period of [1, 7, 32, 33]) {
      const unit = seededBytes(`period ${period}`, period);
      const repeated = Uint8Array.from(
        { length: MIB_BYTES / 2 },
        (_, index) => unit[index % period] as number,
      );
      expect(cutAtOnce(repeated)).toEqual(cutBySpecification(repeated));
    }
  }, 300_000);

  test('keeps the bounds: all but the last chunk', () => {
    for (const [index, end] of ends.entries()) {
      const length = end - (ends[index - 1] ?? 0);
      expect(length).toBeLessThanOrEqual(CHUNK_BYTES_MAX);
      if (index < ends.length - 1) expect(length).toBeGreaterThanOrEqual(CHUNK_BYTES_MIN);
    }
  });

  test('does not depend on how the bytes come', async () => {
    const piece = fc.oneof(
      fc.integer({ min: 10_000, max: 300_000 }),
      fc.constantFrom(1, 65_536, MIB_BYTES, 5 * MIB_BYTES, 9 * MIB_BYTES),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 5 }), async (lengths) => {
        fc.pre(lengths.some((length) => length > 1));
        const chunks = await cutStreamed(split(data, lengths));
        expect(endsOf(chunks)).toEqual(ends);
        expect(Buffer.concat(chunks).equals(data)).toBe(true);
      }),
      { numRuns: 25 },
    );
  }, 300_000);

  test('does not depend on single bytes, around each cut', async () => {
    const first = ends[0] as number;
    const part = data.subarray(0, first + 300_000);
    const lengths = [first - 40, ...new Array<number>(80).fill(1), part.length];
    expect(endsOf(await cutStreamed(split(part, lengths)))).toEqual(cutAtOnce(part));
  });

  test('does not depend on where in memory the bytes are', () => {
    const memory = new Uint8Array(3 * MIB_BYTES + 5);
    memory.set(data.subarray(0, 3 * MIB_BYTES), 5);
    const shifted = memory.subarray(5);
    expect(cutAtOnce(shifted)).toEqual(cutAtOnce(data.subarray(0, 3 * MIB_BYTES)));
    expect(findChunkEnd(memory, 5, false)).toBe((findChunkEnd(data, 0, false) as number) + 5);
  });

  test('at the edges of the sizes', async () => {
    expect(await cutStreamed([])).toEqual([]);
    expect(await cutStreamed([new Uint8Array(0)])).toEqual([]);
    for (const length of [1, 31, 32, CHUNK_BYTES_MIN - 1, CHUNK_BYTES_MIN]) {
      expect(cutAtOnce(data.subarray(0, length))).toEqual([length]);
      expect(endsOf(await cutStreamed([data.subarray(0, length)]))).toEqual([length]);
    }
    const first = ends[0] as number;
    for (const length of [first - 1, first, first + 1]) {
      const expected = length > first ? [first, length] : [length];
      expect(cutAtOnce(data.subarray(0, length))).toEqual(expected);
      expect(endsOf(await cutStreamed([data.subarray(0, length)]))).toEqual(expected);
    }
  });

  test('changes its measure exactly at the minimum and at the target', () => {
    const windows = findWindows();
    /** One such window at the end of a chunk of `length`, in bytes that are no cut. */
    const cutWith = (zeroBits: number, length: number): number | undefined => {
      const bytes = new Uint8Array(CHUNK_BYTES_TARGET + 1000).fill(0x41);
      bytes.set(windows.get(zeroBits) as Uint8Array, length - 32);
      return findChunkEnd(bytes, 0, false);
    };
    expect(cutWith(22, CHUNK_BYTES_MIN - 1)).toBeUndefined();
    expect(cutWith(22, CHUNK_BYTES_MIN)).toBe(CHUNK_BYTES_MIN);
    expect(cutWith(21, CHUNK_BYTES_MIN)).toBeUndefined();
    expect(cutWith(22, CHUNK_BYTES_TARGET - 1)).toBe(CHUNK_BYTES_TARGET - 1);
    expect(cutWith(21, CHUNK_BYTES_TARGET - 1)).toBeUndefined();
    expect(cutWith(18, CHUNK_BYTES_TARGET - 1)).toBeUndefined();
    expect(cutWith(18, CHUNK_BYTES_TARGET)).toBe(CHUNK_BYTES_TARGET);
    expect(cutWith(17, CHUNK_BYTES_TARGET)).toBeUndefined();
    expect(cutWith(17, CHUNK_BYTES_TARGET + 5)).toBeUndefined();
    expect(cutWith(18, CHUNK_BYTES_TARGET + 5)).toBe(CHUNK_BYTES_TARGET + 5);
  });

  test('is forced at the maximum where no hash fits, and known there without more bytes', () => {
    // A constant's hash is -gear[byte]: one that is no cut.
    const constant = new Uint8Array(CHUNK_BYTES_MAX + 1).fill(0x41);
    expect(cutAtOnce(constant)).toEqual([CHUNK_BYTES_MAX, CHUNK_BYTES_MAX + 1]);
    expect(findChunkEnd(constant.subarray(0, CHUNK_BYTES_MAX), 0, false)).toBe(CHUNK_BYTES_MAX);
    expect(findChunkEnd(constant.subarray(0, CHUNK_BYTES_MAX - 1), 0, false)).toBeUndefined();
  });
});

test('one byte inserted into 64 MiB changes at most a few chunks', () => {
  const data = noise(11, 64 * MIB_BYTES);
  const chunksOf = (bytes: Uint8Array): Set<string> => {
    const ends = cutAtOnce(bytes);
    return new Set(
      ends.map((end, index) =>
        createHash('sha256')
          .update(bytes.subarray(ends[index - 1] ?? 0, end))
          .digest('hex'),
      ),
    );
  };
  const before = chunksOf(data);
  for (const at of [0, 12_345_678, 40 * MIB_BYTES, 64 * MIB_BYTES]) {
    const changed = new Uint8Array(data.length + 1);
    changed.set(data.subarray(0, at));
    changed[at] = 0x5a;
    changed.set(data.subarray(at), at + 1);
    const after = chunksOf(changed);
    const fresh = [...after].filter((hash) => !before.has(hash));
    expect(fresh.length).toBeGreaterThanOrEqual(1);
    expect(fresh.length).toBeLessThanOrEqual(4);
  }
}, 300_000);
