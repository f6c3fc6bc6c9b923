import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { PACK_BYTES_MAX, PACK_RECORDS_MAX } from '../limits.ts';
import { readPackNaively } from '../test/naive-pack-fixture.ts';
import {
  encodeRecord,
  JUDGE,
  judgePack,
  type PlantedRecord,
  packOf,
  recordOf,
  recordOfBytes,
  splitAt,
} from '../test/pack-fixture.ts';
import {
  decodeRecordHeader,
  encodePackHeader,
  encodeRecordHeader,
  RECORD_HEADER_BYTES,
} from './pack-format.ts';
import { PackReader } from './pack-reader.ts';

const FIRST = recordOf('first');
const SECOND = recordOf('second '.repeat(40), [FIRST.hash, FIRST.hash], 1);
/** Where a second record begins. */
const SECOND_BYTE = 8 + RECORD_HEADER_BYTES + FIRST.stored.length;

/** FIRST, then a record header with `offset` overwritten, then SECOND's stored bytes. */
function damaged(offset: number, bytes: readonly number[], record: PlantedRecord = SECOND): Uint8Array {
  const pack = packOf([FIRST, record]);
  pack.set(bytes, SECOND_BYTE + offset);
  return pack;
}

function u32(value: number): number[] {
  return [value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24];
}

describe('a pack in order', () => {
  test('without records is valid', () => {
    expect(judgePack([encodePackHeader()], { totalBytes: 8 })).toMatchObject({
      lines: [],
      brokenAt: undefined,
    });
  });

  test('gives each record with its place, whatever the chunks', () => {
    const pack = packOf([FIRST, SECOND]);
    for (const chunkBytes of [1, 7, 44, pack.length]) {
      const reader = new PackReader();
      const records = [];
      for (let at = 0; at < pack.length; at += chunkBytes) {
        for (const record of reader.push(pack.subarray(at, at + chunkBytes))) {
          records.push({ ...record, stored: Buffer.from(record.stored).toString('hex') });
        }
      }
      reader.end();
      expect(reader.fault).toBeUndefined();
      expect(records).toEqual(
        [FIRST, SECOND].map(({ stored, ...header }, index) => ({
          ...header,
          index,
          byte: index === 0 ? 8 : SECOND_BYTE,
          storedLength: stored.length,
          stored: Buffer.from(stored).toString('hex'),
        })),
      );
    }
  });

  test('may end with a record that stores nothing', () => {
    const empty = { ...SECOND, stored: new Uint8Array(0) };
    const pack = packOf([FIRST, empty]);
    for (const options of [{}, { totalBytes: pack.length }]) {
      const outcome = judgePack([pack], options);
      expect(outcome.lines).toEqual([`${FIRST.hash} good`, `${SECOND.hash} INVALID_CANONICAL_NODE`]);
      expect(outcome.brokenAt).toBeUndefined();
    }
  });

  test('takes 4,096 records and 65,536 refs', () => {
    const many = Array.from({ length: PACK_RECORDS_MAX }, (_, index) => recordOf(`node ${index}`));
    expect(judgePack([packOf(many)]).lines).toHaveLength(PACK_RECORDS_MAX);
    const full = Array.from({ length: 256 }, (_, index) => recordOf(`${index}`, Array(256).fill(FIRST.hash)));
    expect(judgePack([packOf(full)])).toMatchObject({ brokenAt: undefined });
  });
});

describe('a framing fault', () => {
  const flipped = (index: number): Uint8Array => {
    const pack = packOf([FIRST]);
    pack[index] = (pack[index] as number) ^ 1;
    return pack;
  };
  const pack = packOf([FIRST, SECOND]);
  test.each<[string, Uint8Array, number, RegExp]>([
    ['nothing at all', new Uint8Array(0), 0, /cut off inside its header/],
    ['half a header', pack.subarray(0, 7), 0, /cut off inside its header/],
    ['another magic', flipped(0), 0, /does not begin with 48 46 50 4b/],
    ['another version', flipped(4), 0, /pack version 0 is not known/],
    ['a reserved header field', flipped(7), 0, /reserved field/],
    [
      'half a record header',
      pack.subarray(0, SECOND_BYTE + 20),
      SECOND_BYTE,
      /record 2: it is cut off inside its header/,
    ],
    ['one byte of a record', pack.subarray(0, SECOND_BYTE + 1), SECOND_BYTE, /record 2: it is cut off/],
    [
      'half the stored bytes',
      pack.subarray(0, pack.length - 1),
      SECOND_BYTE,
      /record 2.*(past the end|cut off)/,
    ],
    ['codec 2', damaged(32, [2]), SECOND_BYTE, /record 2: codec 2 is not known/],
    ['the first reserved byte', damaged(33, [1]), SECOND_BYTE, /reserved/],
    ['the last reserved byte', damaged(35, [1]), SECOND_BYTE, /reserved/],
    ['canonical length 0', damaged(36, [...u32(0), ...u32(0)]), SECOND_BYTE, /canonical length is 0/],
    ['over 8 MiB', damaged(40, u32(8 * 1024 * 1024 + 1)), SECOND_BYTE, /canonical length is 8388609/],
    ['stored below canonical, plain', damaged(40, u32(30), recordOf('x')), SECOND_BYTE, /not compressed/],
    ['stored above canonical, zstd', damaged(40, u32(SECOND.stored.length - 1)), SECOND_BYTE, /is more than/],
    ['a repeated hash', packOf([FIRST, FIRST]), SECOND_BYTE, /stands in the pack before/],
  ])('%s', (_, bytes, byte, message) => {
    for (const totalBytes of [undefined, bytes.length]) {
      for (const chunks of [[bytes], [...bytes].map((one) => Uint8Array.of(one))]) {
        const outcome = judgePack(chunks, totalBytes === undefined ? {} : { totalBytes });
        expect(outcome.message).toMatch(message);
        expect(outcome.brokenAt).toBe(byte);
        expect(outcome.lines).toEqual(byte === 0 ? [] : [`${FIRST.hash} good`]);
      }
    }
  });

  test('a record that passes a known end breaks before its bytes come', () => {
    const reader = new PackReader(SECOND_BYTE + 44 + 10);
    expect([...reader.push(packOf([FIRST, SECOND]).subarray(0, SECOND_BYTE + 44))]).toHaveLength(1);
    expect(reader.fault).toMatchObject({ byte: SECOND_BYTE, message: expect.stringMatching(/past the end/) });
  });

  test('record 4,097', () => {
    const many = Array.from({ length: PACK_RECORDS_MAX + 1 }, (_, index) => recordOf(`node ${index}`));
    const bytes = packOf(many);
    const last = encodeRecord(many.at(-1)!);
    const brokenAt = bytes.length - last[0]!.length - last[1]!.length;
    for (const options of [{}, { totalBytes: bytes.length }]) {
      const outcome = judgePack([bytes], options);
      expect(outcome.lines).toHaveLength(PACK_RECORDS_MAX);
      expect(outcome).toMatchObject({ brokenAt, message: expect.stringMatching(/at most 4096 records/) });
    }
  });

  test('the record that passes 65,536 refs, of good records alone', () => {
    const full = Array.from({ length: 257 }, (_, index) => recordOf(`${index}`, Array(256).fill(FIRST.hash)));
    full[3] = { ...full[3]!, hash: '0'.repeat(64) };
    const bytes = packOf([...full, FIRST, recordOf('one more', [FIRST.hash])]);
    const outcome = judgePack([bytes]);
    expect(outcome.lines).toHaveLength(258);
    expect(outcome.lines[3]).toBe(`${'0'.repeat(64)} NODE_DIGEST_MISMATCH`);
    expect(outcome.message).toMatch(/record 259: with it the pack has more than 65536 refs/);
    expect(readPackNaively(bytes, JUDGE.nodeBytesMax).brokenAt).toBe(outcome.brokenAt!);
  });

  test('a pack over 64 MiB, known beforehand or not', () => {
    expect(new PackReader(PACK_BYTES_MAX).fault).toBeUndefined();
    expect(new PackReader(PACK_BYTES_MAX + 1).fault?.byte).toBe(PACK_BYTES_MAX);
    const reader = new PackReader();
    const piece = new Uint8Array(8 * 1024 * 1024);
    const header = (index: number) => {
      const hash = index.toString(16).padStart(64, '0');
      return encodeRecordHeader({
        hash,
        codec: 0,
        storedLength: piece.length,
        canonicalLength: piece.length,
      });
    };
    let count = 0;
    for (const chunk of [
      encodePackHeader(),
      ...Array.from({ length: 9 }, (_, i) => [header(i), piece]).flat(),
    ]) {
      for (const _ of reader.push(chunk)) count += 1;
    }
    expect(count).toBe(7);
    expect(reader.fault).toEqual({
      byte: PACK_BYTES_MAX,
      message: `the pack is over ${PACK_BYTES_MAX} bytes`,
    });
  });

  test('bytes after a fault are passed over', () => {
    const reader = new PackReader();
    expect([...reader.push(new Uint8Array(8)), ...reader.push(packOf([FIRST]))]).toEqual([]);
    expect(reader.fault?.byte).toBe(0);
  });
});

test('record headers keep what they are given', () => {
  const part = {
    hash: FIRST.hash,
    codec: 1,
    storedLength: 0x01020304 % 8_000_000,
    canonicalLength: 8_000_000,
  } as const;
  const padded = Buffer.concat([Buffer.alloc(3), encodeRecordHeader(part)]);
  expect(decodeRecordHeader(padded, 3)).toEqual({ ...part, reserved: 0 });
  expect(() => encodeRecordHeader({ ...part, canonicalLength: 0 })).toThrow(RangeError);
  expect(() => encodeRecordHeader({ ...part, codec: 0 })).toThrow(/not compressed/);
});

describe('both readers agree', () => {
  const refs = fc.array(fc.constantFrom(FIRST.hash, SECOND.hash), { maxLength: 3 });
  const text = fc.string({ maxLength: 300 });
  const good = fc
    .tuple(text, refs, fc.constantFrom(0 as const, 1 as const))
    .map(([content, children, codec]) => recordOf(content.repeat(codec * 9 + 1), children, codec))
    // A frame that is longer than its node is a framing fault, which other tests make.
    .filter(({ stored, canonicalLength }) => stored.length <= canonicalLength);
  const odd = fc.uint8Array({ minLength: 1, maxLength: 80 }).map((bytes) => recordOfBytes(bytes));
  const packs = fc
    .array(fc.oneof({ weight: 4, arbitrary: good }, odd), { maxLength: 8 })
    .map((records) => packOf(records));
  const cuts = fc.array(fc.nat(4000), { maxLength: 12 });
  const damage = fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { maxLength: 4 });
  const judge = { ...JUDGE, nodeBytesMax: 600 };

  test('on packs of every kind, damaged or cut off, in any chunks', () => {
    fc.assert(
      fc.property(packs, damage, cuts, fc.option(fc.nat(4000)), (original, hits, at, cutAt) => {
        const pack = original.slice(0, cutAt ?? original.length);
        for (const [index, value] of hits) if (pack.length > 0) pack[index % pack.length] = value;
        const expected = readPackNaively(pack, judge.nodeBytesMax);
        for (const options of [{ judge }, { judge, totalBytes: pack.length }]) {
          const { message, ...outcome } = judgePack(splitAt(pack, at), options);
          expect(outcome).toEqual(expected);
          expect(message === undefined).toBe(expected.brokenAt === undefined);
        }
      }),
      { numRuns: 400 },
    );
  });

  test('on arbitrary bytes behind a good header', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), cuts, (bytes, at) => {
        const pack = Buffer.concat([encodePackHeader(), bytes]);
        const { message, ...outcome } = judgePack(splitAt(pack, at));
        expect(outcome).toEqual(readPackNaively(pack, JUDGE.nodeBytesMax));
      }),
    );
  });
});
