import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { PACK_NODE_BYTES_MAX, PACK_RECORDS_MAX } from '../limits.ts';
import { encodeNode, NodeFormatError } from '../node-codec.ts';
import { compress, judgePack, sha256 } from '../test/pack-fixture.ts';
import { encodeRecord, PackBuilder } from './pack-builder.ts';
import { PACK_HEADER_BYTES, RECORD_HEADER_BYTES } from './pack-format.ts';

const LIMITS = { bytesMax: 1_000_000, recordsMax: PACK_RECORDS_MAX };

function nodeOf(text: string, refCount = 0): Uint8Array {
  const refs = Array(refCount).fill('ab'.repeat(32));
  return encodeNode({ contentType: 'text/plain', refs, content: Buffer.from(text) });
}

function recordOf(text: string, refCount = 0) {
  const canonical = nodeOf(text, refCount);
  return encodeRecord(sha256(canonical), canonical);
}

describe('encodeRecord', () => {
  const canonical = nodeOf('x'.repeat(66));
  test.each([
    [90, 1],
    [91, 0],
    [100, 0],
    [150, 0],
  ])('a frame of %d bytes for 100 is used: %d', (length, codec) => {
    const frame = new Uint8Array(length);
    const record = encodeRecord('cd'.repeat(32), canonical, () => frame);
    expect(canonical).toHaveLength(100);
    expect(record).toMatchObject({ codec, storedLength: codec === 1 ? length : 100, canonicalLength: 100 });
    expect(record.stored).toBe(codec === 1 ? frame : canonical);
  });

  test('counts refs, and refuses what no pack may hold', () => {
    expect(recordOf('a', 7).refCount).toBe(7);
    expect(() => encodeRecord('ab'.repeat(32), new Uint8Array(30))).toThrow(NodeFormatError);
    const large = nodeOf('x'.repeat(PACK_NODE_BYTES_MAX - 34));
    expect(large).toHaveLength(PACK_NODE_BYTES_MAX);
    expect(encodeRecord('ab'.repeat(32), large).canonicalLength).toBe(PACK_NODE_BYTES_MAX);
    const tooLarge = nodeOf('x'.repeat(PACK_NODE_BYTES_MAX - 33));
    expect(() => encodeRecord('ab'.repeat(32), tooLarge, compress)).toThrow(/canonical length/);
  });
});

describe('PackBuilder', () => {
  test('an empty pack is a header', () => {
    expect(judgePack([new PackBuilder().toBytes()])).toMatchObject({ lines: [], brokenAt: undefined });
  });

  test('what it makes is read back, in order, each node once', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.string({ maxLength: 200 }), fc.nat(3)), { maxLength: 20 }),
        (nodes) => {
          const builder = new PackBuilder();
          const hashes = new Set<string>();
          for (const [text, refCount] of nodes) {
            const canonical = nodeOf(text.repeat(5), refCount);
            const hash = sha256(canonical);
            hashes.add(hash);
            expect(builder.add(encodeRecord(hash, canonical, compress))).toBe(true);
          }
          const pack = builder.toBytes();
          expect(pack).toHaveLength(builder.byteLength);
          expect(builder.hashes).toEqual([...hashes]);
          expect(judgePack([pack])).toEqual({
            lines: [...hashes].map((hash) => `${hash} good`),
            brokenAt: undefined,
            message: undefined,
          });
        },
      ),
      { numRuns: 50 },
    );
  });

  test('is full at its bytes, exactly', () => {
    const [one, two] = [recordOf('one'), recordOf('two')];
    const bytesMax = PACK_HEADER_BYTES + 2 * RECORD_HEADER_BYTES + one.storedLength + two.storedLength;
    for (const [limit, fits] of [
      [bytesMax, true],
      [bytesMax - 1, false],
    ] as const) {
      const builder = new PackBuilder({ ...LIMITS, bytesMax: limit });
      expect(builder.add(one)).toBe(true);
      expect(builder.add(two)).toBe(fits);
      expect(builder.hashes).toHaveLength(fits ? 2 : 1);
      expect(builder.toBytes()).toHaveLength(builder.byteLength);
      expect(builder.add(one)).toBe(true);
    }
  });

  test('is full at its records and at 65,536 refs', () => {
    const few = new PackBuilder({ ...LIMITS, recordsMax: 1 });
    expect([few.add(recordOf('one')), few.add(recordOf('two'))]).toEqual([true, false]);
    const builder = new PackBuilder({ bytesMax: 2 ** 40, recordsMax: 2 ** 20 });
    for (let index = 0; index < 256; index++) expect(builder.add(recordOf(`${index}`, 256))).toBe(true);
    expect(builder.add(recordOf('one more', 1))).toBe(false);
    for (let index = 256; index < PACK_RECORDS_MAX; index++)
      expect(builder.add(recordOf(`${index}`))).toBe(true);
    expect(builder.add(recordOf('last'))).toBe(false);
    expect(judgePack([builder.toBytes()])).toMatchObject({ brokenAt: undefined });
  });
});
