/** Makes test-vectors/pack-vectors.json; docs/bulk.md says what it is for. The outcomes stand here as a person reads them off the page. */
import type { Hash } from '../hash.ts';
import { encodeNode } from '../node-codec.ts';
import { encodePackHeader } from '../pack/pack-format.ts';
import { encodeRecord, type PlantedRecord, packOf, sha256 } from './pack-fixture.ts';

export interface PackVector {
  readonly name: string;
  readonly packHex: string;
  /** one for each record before the fault, in order */
  readonly records: readonly { readonly hash: Hash; readonly outcome: string }[];
  readonly broken: { readonly byte: number } | null;
}

const bytesOf = (hex: string): Uint8Array => Buffer.from(hex.replaceAll(' ', ''), 'hex');

function plain(text: string, refs: readonly Hash[] = []): PlantedRecord {
  const canonical = encodeNode({ contentType: 'text/plain', refs, content: Buffer.from(text) });
  return { hash: sha256(canonical), codec: 0, stored: canonical, canonicalLength: canonical.length };
}

const HELLO = plain('Hello, CAS!');
const PARENT = plain('both', [HELLO.hash, HELLO.hash]);
const LINES = plain('the same line again and again\n'.repeat(12));
const ZEROS = plain('\0'.repeat(1000));
const SHORT = plain('x');

/** A frame that a library wrote: one compressed block, its size and its checksum stated. */
const LINES_FRAME = bytesOf(
  '28b52ffd648a00dd0100b40255440100680a000000746578742f706c61696e7468652073616d65206c696e6520616761696e20616e640a0500474129d1167cd04005af0588c922e548',
);
/** Window 1 KiB, no size stated: the header of the node in a plain block, then one byte a thousand times. */
const ZEROS_FRAME = Buffer.concat([
  bytesOf('28b52ffd 00 00 100100'),
  ZEROS.stored.subarray(0, 34),
  bytesOf('431f00 00'),
]);

const compressed = (record: PlantedRecord, stored: Uint8Array): PlantedRecord => ({
  ...record,
  codec: 1,
  stored,
});
const good = ({ hash }: PlantedRecord) => ({ hash, outcome: 'good' });
const turnedDown = ({ hash }: PlantedRecord, outcome: string) => ({ hash, outcome });

function vector(
  name: string,
  pack: Uint8Array,
  records: PackVector['records'],
  brokenAt: number | null = null,
): PackVector {
  const broken = brokenAt === null ? null : { byte: brokenAt };
  return { name, packHex: Buffer.from(pack).toString('hex'), records, broken };
}

/** HELLO, then a record whose header was changed at `offset`. */
function changed(offset: number, hex: string, record: PlantedRecord = SHORT): Uint8Array {
  const pack = packOf([HELLO, record]);
  pack.set(bytesOf(hex), SECOND_BYTE + offset);
  return pack;
}

/** Where the record behind HELLO begins. */
const SECOND_BYTE = 8 + 44 + HELLO.stored.length;

export function makePackVectors(): readonly PackVector[] {
  return [...makeWholePacks(), ...makeRejections(), ...makeFaults()];
}

function makeWholePacks(): PackVector[] {
  return [
    vector('no record', encodePackHeader(), []),
    vector('one node as it is', packOf([HELLO]), [good(HELLO)]),
    vector('a parent before its child', packOf([PARENT, HELLO]), [good(PARENT), good(HELLO)]),
    vector(
      'compressed: size and checksum stated, and neither',
      packOf([compressed(LINES, LINES_FRAME), compressed(ZEROS, ZEROS_FRAME)]),
      [good(LINES), good(ZEROS)],
    ),
  ];
}

function makeRejections(): PackVector[] {
  const frames: [string, PlantedRecord, Uint8Array][] = [
    ['a wrong checksum', LINES, Buffer.concat([LINES_FRAME.subarray(0, -1), bytesOf('00')])],
    ['a byte behind the frame', LINES, Buffer.concat([LINES_FRAME, bytesOf('00')])],
    ['a frame that is cut off', LINES, LINES_FRAME.subarray(0, -5)],
    ['a skippable frame', LINES, bytesOf('502a4d18 04000000 00000000')],
    ['no bytes at all', LINES, new Uint8Array(0)],
    ['a dictionary', ZEROS, Buffer.concat([bytesOf('28b52ffd 01 00 07'), ZEROS_FRAME.subarray(6)])],
    ['a window over 8 MiB', ZEROS, Buffer.concat([bytesOf('28b52ffd 00 69'), ZEROS_FRAME.subarray(6)])],
    ['a stated size of 999', ZEROS, Buffer.concat([bytesOf('28b52ffd 40 00 e702'), ZEROS_FRAME.subarray(6)])],
    ['a byte too many unpacked', ZEROS, Buffer.concat([ZEROS_FRAME.subarray(0, -4), bytesOf('4b1f0000')])],
    ['a byte too few unpacked', ZEROS, Buffer.concat([ZEROS_FRAME.subarray(0, -4), bytesOf('3b1f0000')])],
  ];
  const noNode = Buffer.from('no canonical node');
  const zeroHash = { ...SHORT, hash: '0'.repeat(64) };
  const stranger = {
    hash: sha256(noNode),
    codec: 0,
    stored: noNode,
    canonicalLength: noNode.length,
  } as const;
  return [
    ...frames.map(([name, record, frame]) =>
      vector(`rejected: ${name}`, packOf([compressed(record, frame), HELLO]), [
        turnedDown(record, 'INVALID_CANONICAL_NODE'),
        good(HELLO),
      ]),
    ),
    vector('rejected: the bytes of another node', packOf([zeroHash, HELLO]), [
      turnedDown(zeroHash, 'NODE_DIGEST_MISMATCH'),
      good(HELLO),
    ]),
    vector('rejected: no canonical node', packOf([HELLO, stranger]), [
      good(HELLO),
      turnedDown(stranger, 'INVALID_CANONICAL_NODE'),
    ]),
  ];
}

function makeFaults(): PackVector[] {
  const whole = packOf([HELLO, SHORT]);
  const [header = new Uint8Array(0)] = encodeRecord(SHORT);
  const after = (name: string, pack: Uint8Array): PackVector =>
    vector(`broken: ${name}`, pack, [good(HELLO)], SECOND_BYTE);
  return [
    vector('broken: nothing', new Uint8Array(0), [], 0),
    vector('broken: half a header', whole.subarray(0, 7), [], 0),
    vector('broken: another magic', Buffer.concat([bytesOf('4846504c 01000000')]), [], 0),
    vector('broken: version 2', bytesOf('4846504b 02000000'), [], 0),
    vector('broken: reserved field of the header', bytesOf('4846504b 01000100'), [], 0),
    after('cut off inside a record header', whole.subarray(0, SECOND_BYTE + 43)),
    after('cut off behind a record header', whole.subarray(0, SECOND_BYTE + header.length)),
    after('stored length past the end', whole.subarray(0, -1)),
    after('codec 2', changed(32, '02')),
    after('a reserved byte', changed(34, '01')),
    after('canonical length 0', changed(36, '00000000 00000000')),
    after('canonical length of 8 MiB and a byte', changed(40, '01008000', compressed(LINES, LINES_FRAME))),
    after('stored and canonical length differ, codec 0', changed(40, '24000000')),
    after('stored over canonical length, codec 1', changed(40, '48000000', compressed(LINES, LINES_FRAME))),
    after('a repeated hash', packOf([HELLO, HELLO])),
  ];
}
