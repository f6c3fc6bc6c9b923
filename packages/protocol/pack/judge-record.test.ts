import { expect, test } from 'bun:test';
import { encodeNode } from '../node-codec.ts';
import { compress, JUDGE, type PlantedRecord, packOf, recordOf, sha256 } from '../test/pack-fixture.ts';
import { judgeRecord, type RecordJudge } from './judge-record.ts';
import { PackReader } from './pack-reader.ts';

function judge(planted: PlantedRecord, changes: Partial<RecordJudge> = {}) {
  const [record] = new PackReader().push(packOf([planted]));
  return judgeRecord(record!, { ...JUDGE, ...changes });
}

const CONTENT = Buffer.from('hello '.repeat(30));
const CANONICAL = encodeNode({ contentType: 'text/plain', refs: ['ab'.repeat(32)], content: CONTENT });
const GOOD = recordOf(CONTENT.toString(), ['ab'.repeat(32)], 1);

test.each([0, 1] as const)('a good record, codec %d', (codec) => {
  const { node, rejection } = judge(recordOf(CONTENT.toString(), ['ab'.repeat(32)], codec));
  expect(rejection).toBeUndefined();
  expect(node).toMatchObject({ contentType: 'text/plain', headerLength: 24 + 10 + 32 });
  expect(Buffer.from(node!.canonical)).toEqual(Buffer.from(CANONICAL));
  expect(Buffer.from(node!.content)).toEqual(CONTENT);
});

test('a record over the limit is not unpacked; exactly the limit is good', () => {
  let unpacked = 0;
  const unzstd: RecordJudge['unzstd'] = (...parts) => {
    unpacked += 1;
    return JUDGE.unzstd(...parts);
  };
  const tooLarge = judge(GOOD, { nodeBytesMax: CANONICAL.length - 1, unzstd });
  expect(tooLarge.rejection).toMatchObject({ code: 'NODE_TOO_LARGE', message: expect.stringMatching(/245/) });
  expect(unpacked).toBe(0);
  expect(judge(GOOD, { nodeBytesMax: CANONICAL.length, unzstd }).rejection).toBeUndefined();
  expect(unpacked).toBe(1);
});

const WITH_CHECKSUM = compress(CANONICAL, true);
const BAD_CHECKSUM = WITH_CHECKSUM.slice();
BAD_CHECKSUM[BAD_CHECKSUM.length - 1]! ^= 1;
const NO_NODE = Buffer.alloc(100, 1);
const zeros = '0'.repeat(64);

test.each<[string, PlantedRecord, string, RegExp]>([
  [
    'two frames',
    { ...GOOD, stored: Buffer.concat([GOOD.stored, GOOD.stored.subarray(0, 5)]) },
    'INVALID_CANONICAL_NODE',
    /behind the frame/,
  ],
  ['a wrong checksum', { ...GOOD, stored: BAD_CHECKSUM }, 'INVALID_CANONICAL_NODE', /checksum/],
  [
    'a bad frame of a wrong hash',
    { ...GOOD, hash: zeros, stored: BAD_CHECKSUM },
    'INVALID_CANONICAL_NODE',
    /checksum/,
  ],
  ['no frame', { ...GOOD, stored: Buffer.alloc(20) }, 'INVALID_CANONICAL_NODE', /does not begin/],
  ['an empty frame', { ...GOOD, stored: Buffer.alloc(0) }, 'INVALID_CANONICAL_NODE', /does not begin/],
  ['another hash', { ...GOOD, hash: zeros }, 'NODE_DIGEST_MISMATCH', /have the digest/],
  [
    'no node and another hash',
    { ...GOOD, hash: zeros, codec: 0, stored: NO_NODE, canonicalLength: 100 },
    'NODE_DIGEST_MISMATCH',
    /100 bytes/,
  ],
  [
    'no node',
    { hash: sha256(NO_NODE), codec: 0, stored: NO_NODE, canonicalLength: 100 },
    'INVALID_CANONICAL_NODE',
    /signature/,
  ],
])('%s', (_, planted, code, message) => {
  expect(judge(planted).rejection).toEqual({ code: code as never, message: expect.stringMatching(message) });
});

test('a decoder that gives another length than it was asked for is not believed', () => {
  const { rejection } = judge(GOOD, { unzstd: () => CANONICAL.subarray(1) });
  expect(rejection?.code).toBe('INVALID_CANONICAL_NODE');
});

test('a failure that says nothing of the frame is no rejection', () => {
  const unzstd = () => {
    throw new RangeError('out of memory');
  };
  expect(() => judge(GOOD, { unzstd })).toThrow('out of memory');
});
