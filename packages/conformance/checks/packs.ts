/** The pack format: framing faults, records that are rejected, and in which order. */
import { createHash } from 'node:crypto';
import { constants, zstdCompressSync } from 'node:zlib';
import { sayBytes } from '../answer.ts';
import { BulkClient } from '../bulk-client.ts';
import type { PackLease } from '../bulk-wire.ts';
import { expectEqual, expectThat } from '../expect.ts';
import {
  makeNode,
  makeNodeOfCanonicalSize,
  randomContent,
  randomHash,
  type SampleNode,
} from '../node-bytes.ts';
import {
  encodePack,
  encodeRecord,
  framedRecord,
  PACK_HEADER,
  PACK_RECORDS_MAX,
  PACK_REFS_MAX,
  PACKED_NODE_BYTES_MAX,
  plainRecord,
  type RecordSketch,
} from '../pack-bytes.ts';
import type { SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const HEADER = "Pack format: broken: the pack's header is whole";
const BROKEN = 'Pack format: broken: nothing from there on is judged, and every record before it stands';
const REJECTED = 'Pack format: rejected: the first of these counts';
const FRAMES = 'Pack format: frames: exactly one frame of RFC 8878';
const LIMITS = 'Pack format: at most 4,096 records, 65,536 refs';
const REFS_PER_NODE = 256;

/** Uploads these bytes as a pack, and leases it. */
async function judged(client: SpaceClient, bytes: Uint8Array): Promise<PackLease> {
  const bulk = new BulkClient(client);
  const { id } = await bulk.uploaded({ hash: randomHash() }, bytes);
  return bulk.leasePack(id);
}

function expectBroken({ results, broken }: PackLease, byte: number, what: string): void {
  expectThat(broken !== undefined, `broken, for ${what}`, results);
  expectEqual(broken.byte, byte, `broken.byte for ${what}`);
}

const headerFaults: readonly (readonly [string, string])[] = [
  ['another magic', '4846504c01000000'],
  ['version 0', '4846504b00000000'],
  ['version 2', '4846504b02000000'],
  ['a reserved bit', '4846504b01000001'],
];

type Change = (record: RecordSketch) => RecordSketch;
const recordFaults: readonly (readonly [string, Change])[] = [
  ['codec 2', (record) => ({ ...record, codec: 2 })],
  ['codec 255', (record) => ({ ...record, codec: 255 })],
  ['the first reserved byte', (record) => ({ ...record, reserved: [1, 0, 0] })],
  ['the last reserved byte', (record) => ({ ...record, reserved: [0, 0, 128] })],
  ['canonical length 0', (record) => ({ ...record, canonicalLength: 0 })],
  [
    'canonical length 0, framed',
    (record) => ({ ...record, codec: 1, canonicalLength: 0, stored: new Uint8Array(0) }),
  ],
  [
    'canonical length over 8 MiB',
    (record) => ({ ...record, codec: 1, canonicalLength: PACKED_NODE_BYTES_MAX + 1 }),
  ],
  [
    'stored less than canonical at codec 0',
    (record) => ({ ...record, canonicalLength: record.canonicalLength + 1 }),
  ],
  [
    'stored more than canonical at codec 0',
    (record) => ({ ...record, canonicalLength: record.canonicalLength - 1 }),
  ],
  [
    'stored more than canonical at codec 1',
    (record) => ({ ...record, codec: 1, canonicalLength: record.stored.length - 1 }),
  ],
  ['stored past the end', (record) => ({ ...record, storedLength: 1_000_000, canonicalLength: 1_000_000 })],
  ['the longest stored length', (record) => ({ ...record, codec: 1, storedLength: 0xffffffff })],
];

const framingChecks: readonly Check[] = [
  check('packs.empty', LIMITS, 'a pack without records is valid', 'bulk', async ({ client }) => {
    expectEqual(await judged(client, PACK_HEADER), { results: [] }, 'the lease of a pack without records');
  }),
  check('packs.header', HEADER, 'wrong and short headers', 'bulk', async ({ client }) => {
    const node = makeNode();
    for (const [what, hex] of headerFaults) {
      const lease = await judged(client, encodePack([plainRecord(node)], Buffer.from(hex, 'hex')));
      expectBroken(lease, 0, what);
      expectEqual(lease.results, [], `results for ${what}`);
    }
    for (const length of [0, 1, 7])
      expectBroken(await judged(client, PACK_HEADER.subarray(0, length)), 0, sayBytes(length));
    await client.expectAbsent(node.hash, 'behind a broken header');
  }),
  check(
    'packs.broken',
    BROKEN,
    'each fault of a record, between two good ones',
    'bulk',
    async ({ client }) => {
      for (const [what, change] of recordFaults) {
        const [before, node, after] = [makeNode(), makeNode(), makeNode()];
        const records = [plainRecord(before), change(plainRecord(node)), plainRecord(after)];
        const lease = await judged(client, encodePack(records));
        expectBroken(lease, PACK_HEADER.length + encodeRecord(plainRecord(before)).length, what);
        expectEqual(
          lease.results.map(({ state, hash }) => [state, hash]),
          [['ready', before.hash]],
          `results for ${what}`,
        );
        for (const { hash } of [node, after]) await client.expectAbsent(hash, `from ${what} on`);
      }
    },
  ),
  check('packs.cut-off', BROKEN, 'a record that ends too early', 'bulk', async ({ client }) => {
    const [first, last] = [makeNode(), makeNode()];
    const whole = encodePack([first, last].map(plainRecord));
    const begin = PACK_HEADER.length + encodeRecord(plainRecord(first)).length;
    for (const end of [begin + 1, begin + 43, begin + 44, whole.length - 1]) {
      const lease = await judged(client, whole.subarray(0, end));
      expectBroken(lease, begin, `${sayBytes(end - begin)} of a record`);
      expectEqual(
        lease.results.map(({ state }) => state),
        ['ready'],
        'states before the fault',
      );
    }
    await client.expectAbsent(last.hash, 'cut off');
  }),
  check('packs.repeated', BROKEN, 'a hash that stands twice', 'bulk', async ({ client }) => {
    const [one, bad] = [makeNode(), makeNode()];
    const wrong = { ...plainRecord(makeNode()), hash: bad.hash };
    for (const [first, again] of [
      [plainRecord(one), framedRecord(one)],
      [wrong, plainRecord(bad)],
    ] as const) {
      const lease = await judged(client, encodePack([first, again]));
      expectBroken(lease, PACK_HEADER.length + encodeRecord(first).length, 'a repeated hash');
      expectEqual(lease.results.length, 1, 'results');
    }
    await client.expectAbsent(bad.hash, 'the good bytes stood behind the fault');
  }),
  check('packs.records-max', LIMITS, '4,096 records, and one more', 'bulk', async ({ client }) => {
    const nodes = Array.from({ length: PACK_RECORDS_MAX + 1 }, (_, index) =>
      makeNode({ content: `${index}` }),
    );
    const records = nodes.map(plainRecord);
    const most = encodePack(records.slice(0, -1));
    const lease = await judged(client, encodePack(records));
    expectBroken(lease, most.length, 'record 4,097');
    expectEqual(lease.results.length, PACK_RECORDS_MAX, 'results before the fault');
    expectThat(
      lease.results.every(({ state }) => state === 'ready'),
      'every record ready',
      'not all',
    );
    const whole = await judged(client, most);
    expectEqual(
      [whole.results.length, whole.broken],
      [PACK_RECORDS_MAX, undefined],
      'results and broken of 4,096 records',
    );
  }),
  check('packs.refs-max', LIMITS, '65,536 refs, and one more', 'bulk', async ({ client }) => {
    const child = await client.published();
    const refs = Array.from({ length: REFS_PER_NODE }, () => child.hash);
    const full = Array.from({ length: PACK_REFS_MAX / REFS_PER_NODE }, () => makeNode({ refs }));
    const [over, leaf] = [makeNode({ refs: [child.hash] }), makeNode()];
    const most = [...full, leaf].map(plainRecord);
    const lease = await judged(client, encodePack([...most, plainRecord(over), plainRecord(makeNode())]));
    expectBroken(lease, encodePack(most).length, 'the record that passes 65,536 refs');
    expectEqual(lease.results.length, most.length, 'results before the fault');
    expectThat(
      lease.results.every(({ state }) => state === 'ready'),
      'every record before it ready',
      'not all',
    );
    await client.expectAbsent(over.hash, 'the record that passes the refs');
  }),
];

const frameOf = (bytes: Uint8Array, params: Record<number, number> = {}): Buffer =>
  zstdCompressSync(bytes, { params });
const SKIPPABLE = Buffer.from('502a4d180400000001020304', 'hex');
const compressible = (): SampleNode => makeNode({ content: `${randomHash()} `.repeat(400) });

/** The frame header is 4 bytes of magic, the descriptor, then the content size where there is no window descriptor. */
function withoutChecksumFlag(frame: Buffer): Buffer {
  const copy = Buffer.from(frame);
  copy[4] = (copy[4] as number) ^ 4;
  return copy;
}

function corrupted(frame: Buffer, at: number): Buffer {
  const copy = Buffer.from(frame);
  copy[at] = (copy[at] as number) ^ 0xff;
  return copy;
}

/** A frame of a window of 16 MiB with one raw block: the descriptor says a window, and no content size. */
function wideWindow(bytes: Uint8Array): Buffer {
  const head = Buffer.from('28b52ffd0070', 'hex');
  const block = Buffer.alloc(3);
  block.writeUIntLE((bytes.length << 3) | 1, 0, 3);
  return Buffer.concat([head, block, bytes]);
}

/** A frame that names a dictionary, else like the one above with a window of 1 MiB. */
function withDictionary(bytes: Uint8Array): Buffer {
  const head = Buffer.from('28b52ffd015007', 'hex');
  const block = Buffer.alloc(3);
  block.writeUIntLE((bytes.length << 3) | 1, 0, 3);
  return Buffer.concat([head, block, bytes]);
}

const wrongFrames: readonly (readonly [string, (bytes: Uint8Array) => Uint8Array])[] = [
  ['no frame', () => randomContent(64)],
  ['nothing', () => new Uint8Array(0)],
  ['two frames', (bytes) => Buffer.concat([frameOf(bytes.subarray(0, 100)), frameOf(bytes.subarray(100))])],
  ['a skippable frame before', (bytes) => Buffer.concat([SKIPPABLE, frameOf(bytes)])],
  ['a skippable frame behind', (bytes) => Buffer.concat([frameOf(bytes), SKIPPABLE])],
  ['a byte behind', (bytes) => Buffer.concat([frameOf(bytes), Buffer.alloc(1)])],
  ['cut off', (bytes) => frameOf(bytes).subarray(0, -1)],
  ['fewer bytes than the record says', (bytes) => frameOf(bytes.subarray(0, -1))],
  ['more bytes than the record says', (bytes) => frameOf(Buffer.concat([bytes, Buffer.alloc(1)]))],
  [
    'a wrong checksum',
    (bytes) => {
      const frame = frameOf(bytes, { [constants.ZSTD_c_checksumFlag]: 1 });
      return corrupted(frame, frame.length - 1);
    },
  ],
  [
    'a checksum that is not announced',
    (bytes) => withoutChecksumFlag(frameOf(bytes, { [constants.ZSTD_c_checksumFlag]: 1 })),
  ],
  ['a window of 16 MiB', (bytes) => wideWindow(bytes.subarray(0, 64))],
  ['a dictionary', (bytes) => withDictionary(bytes.subarray(0, 64))],
];

const frameChecks: readonly Check[] = [
  check('packs.frames', FRAMES, 'frames that are refused, each alone', 'bulk', async ({ client }) => {
    for (const [what, make] of wrongFrames) {
      const [before, node, after] = [makeNode(), compressible(), makeNode()];
      const frame = make(node.bytes);
      const lease = await judged(
        client,
        encodePack([plainRecord(before), framedRecord(node, frame), plainRecord(after)]),
      );
      expectEqual(lease.broken, undefined, `broken for ${what}`);
      expectEqual(
        lease.results.map(({ state }) => state),
        ['ready', 'rejected', 'ready'],
        `states for ${what}`,
      );
      const [, rejected] = lease.results;
      expectEqual(
        rejected?.state === 'rejected' && rejected.rejection.code,
        'INVALID_CANONICAL_NODE',
        `rejection.code for ${what}`,
      );
      await client.expectAbsent(node.hash, what);
    }
  }),
  check('packs.good-frames', FRAMES, 'frames that are taken', 'bulk', async ({ client }) => {
    const bulk = new BulkClient(client);
    const ways = [
      {},
      { [constants.ZSTD_c_checksumFlag]: 1 },
      { [constants.ZSTD_c_contentSizeFlag]: 0 },
      { [constants.ZSTD_c_compressionLevel]: 19, [constants.ZSTD_c_windowLog]: 23 },
    ];
    const nodes = ways.map(compressible);
    await bulk.publish(
      nodes,
      nodes.map((node, index) => framedRecord(node, frameOf(node.bytes, ways[index]))),
    );
    // Readers do not judge whether it saves a tenth, only that it is not longer.
    const raw = makeNodeOfCanonicalSize(1000);
    const frame = frameOf(Buffer.concat([raw.bytes.subarray(0, 900), Buffer.alloc(100)]));
    expectThat(
      frame.length <= 1000 && frame.length > 900,
      'a frame that saves less than a tenth',
      frame.length,
    );
    const padded = { bytes: Buffer.concat([raw.bytes.subarray(0, 900), Buffer.alloc(100)]) };
    const node = { hash: createHash('sha256').update(padded.bytes).digest('hex'), bytes: padded.bytes };
    expectEqual(
      (await bulk.send([node], [framedRecord(node, frame)])).results.map(({ state }) => state),
      ['ready'],
      'states of a frame that saves little',
    );
    for (const each of nodes) await client.expectContent(each);
  }),
];

/** Records that break several rules: the earliest of them names the rejection. */
const rejections: readonly (readonly [string, string, () => RecordSketch])[] = [
  ['a wrong digest', 'NODE_DIGEST_MISMATCH', () => ({ ...plainRecord(makeNode()), hash: randomHash() })],
  [
    'a wrong digest, framed',
    'NODE_DIGEST_MISMATCH',
    () => ({ ...framedRecord(compressible()), hash: randomHash() }),
  ],
  [
    'no node, with the right digest',
    'INVALID_CANONICAL_NODE',
    () => plainRecord(bytesAsNode(randomContent(100))),
  ],
  [
    'no node, with a wrong digest',
    'NODE_DIGEST_MISMATCH',
    () => ({ ...plainRecord(bytesAsNode(randomContent(100))), hash: randomHash() }),
  ],
  [
    'a wrong frame, with a wrong digest',
    'INVALID_CANONICAL_NODE',
    () => ({ ...framedRecord(compressible(), randomContent(64)), hash: randomHash() }),
  ],
  [
    'a byte behind the node',
    'INVALID_CANONICAL_NODE',
    () => plainRecord(bytesAsNode(Buffer.concat([makeNode().bytes, Buffer.alloc(1)]))),
  ],
];

function bytesAsNode(bytes: Uint8Array): Pick<SampleNode, 'hash' | 'bytes'> {
  return { bytes, hash: createHash('sha256').update(bytes).digest('hex') };
}

function codesOf({ results }: PackLease): string[] {
  return results.map((result) => (result.state === 'rejected' ? result.rejection.code : result.state));
}

const rejectionChecks: readonly Check[] = [
  check(
    'packs.rejections',
    REJECTED,
    'each rejected alone, in the order of the rules',
    'bulk',
    async ({ client }) => {
      const [first, last] = [makeNode(), makeNode()];
      const records = [plainRecord(first), ...rejections.map(([, , make]) => make()), plainRecord(last)];
      const lease = await judged(client, encodePack(records));
      expectEqual(
        lease.results.map(({ hash }) => hash),
        records.map(({ hash }) => hash),
        'hashes of the results',
      );
      expectEqual(
        codesOf(lease),
        ['ready', ...rejections.map(([, code]) => code), 'ready'],
        rejections.map(([what]) => what).join('; '),
      );
      expectEqual(lease.broken, undefined, 'broken');
      expectEqual((await client.usage()).nodeCount, 2, 'nodeCount');
    },
  ),
  check(
    'packs.too-large',
    `${REJECTED}: NODE_TOO_LARGE, nothing is unpacked`,
    'a node over the limit, whatever else is wrong',
    'bulk',
    'packed-node-limit',
    async ({ client, target }) => {
      const limit = makeNodeOfCanonicalSize(target.nodeBytesMax);
      const over = makeNodeOfCanonicalSize(target.nodeBytesMax + 1);
      const lies = {
        ...framedRecord(makeNode(), randomContent(20)),
        canonicalLength: target.nodeBytesMax + 1,
      };
      const lease = await judged(client, encodePack([plainRecord(over), lies, plainRecord(limit)]));
      expectEqual(
        codesOf(lease),
        ['NODE_TOO_LARGE', 'NODE_TOO_LARGE', 'ready'],
        'one byte over, a frame that is none, exactly the limit',
      );
    },
  ),
];

export const packChecks: readonly Check[] = [...framingChecks, ...frameChecks, ...rejectionChecks];
