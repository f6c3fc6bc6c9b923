/**
 * Hostile packs over real sockets: the server judges them by the rules, in bounded memory, and serves others meanwhile
 * (docs/bulk.md, Pack format).
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { readPackNaively } from '../packages/protocol/test/naive-pack-fixture.ts';
import { type BulkClient, makeBulkClient } from './support/bulk-client.ts';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import {
  makePack,
  PACK_BYTES_LIMIT,
  type PlantedRecord,
  packed,
  plain,
  recordBytes,
} from './support/planted-pack.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';

const MIB = 1024 * 1024;
/**
 * Growth of the server's memory that a step may cause: a seventh of what it unpacks. The rest of the bound is garbage, which the
 * runtime collects when it likes, and two packs of 63 MiB that come in faster than a busy disk takes them.
 */
const MEMORY_MAX = 128 * MIB;
const NODE_BYTES_MAX = 8 * MIB;
const SEED = 20260101;
const ZEROS = zstdCompressSync(new Uint8Array(NODE_BYTES_MAX));

let running: RunningServer;
let bulk: BulkClient;
let number = 0;
const nextNode = (refs: readonly string[] = []): CanonicalNode => makeNode(`hostile ${++number}`, { refs });
const hashAt = (index: number): string => (index + 1).toString(16).padStart(64, 'f0');

beforeAll(async () => {
  running = await startFreshServer('hostile-packs', { arguments: ['--max-node-bytes', '7MiB'] });
  bulk = makeBulkClient(running.server.url, APP, SPACE, running.issuer.token(SPACE));
}, 300_000);
afterAll(() => running.remove());

/** The most that the server's process ever had in memory, bytes. */
function readPeakBytes(): number {
  const kib = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${running.server.pid}/status`, 'utf8'))?.[1];
  return Number(kib) * 1024;
}

async function judge(pack: Uint8Array) {
  const opened = await bulk.open([nextNode().hash]);
  expect((await bulk.put(opened, pack)).status).toBe(200);
  const { status, json } = await bulk.lease(opened.id);
  expect(status).toBe(200);
  return json;
}

const codesOf = ({ results }: { results: { state: string; rejection?: { code: string } }[] }): string[] =>
  results.map(({ state, rejection }) => rejection?.code ?? state);

const bomb = (index: number, canonicalLength = 7 * MIB): PlantedRecord => ({
  hash: hashAt(index),
  codec: 1,
  stored: ZEROS,
  canonicalLength,
});

test('frames that unpack to more than they say, or to gigabytes together, delay no other caller', async () => {
  await judge(makePack([plain(nextNode())]));
  const last = nextNode();
  const records = [
    bomb(0, 1000),
    bomb(1, NODE_BYTES_MAX),
    ...Array.from({ length: 100 }, (_, at) => bomb(at + 2)),
  ];
  const opened = await bulk.open([last.hash]);
  expect((await bulk.put(opened, makePack([...records, plain(last)]))).status).toBe(200);
  let isOver = false;
  const leasing = bulk.lease(opened.id).finally(() => {
    isOver = true;
  });
  let served = 0;
  for (; !isOver; served += 1) expect((await fetch(`${running.server.url}/health`)).status).toBe(200);
  const { json } = await leasing;
  expect(codesOf(json)).toEqual([
    'INVALID_CANONICAL_NODE',
    'NODE_TOO_LARGE',
    ...Array.from({ length: 100 }, () => 'INVALID_CANONICAL_NODE'),
    'ready',
  ]);
  expect(served).toBeGreaterThan(2);
});

test('memory stays within bounds, whatever a pack holds', async () => {
  const size = 7 * MIB - 24 - 'application/octet-stream'.length;
  const large = Array.from({ length: 9 }, (_, index) => makeNode(seededBytes(size, 1000 + index)));
  const zeros = Array.from({ length: 12 }, (_, index) => makeNode(Buffer.alloc(size, `${index}.`)));
  const before = readPeakBytes();
  // An honest pack costs no more either.
  expect(codesOf(await judge(makePack(large.map(plain))))).toEqual(large.map(() => 'ready'));
  const wrong = large.map((node, index) => ({ ...plain(node), hash: hashAt(index) }));
  expect(codesOf(await judge(makePack(wrong)))).toEqual(large.map(() => 'NODE_DIGEST_MISMATCH'));
  expect(readPeakBytes() - before).toBeLessThan(MEMORY_MAX);
  // The rest is small on its way in, and takes 900 MiB once it is unpacked or read.
  const received = readPeakBytes();
  const answer = await judge(makePack(zeros.map(packed)));
  expect(answer.results).toHaveLength(12);
  const one = packed(zeros[0] as CanonicalNode);
  const bombs = Array.from({ length: 100 }, (_, index) => ({ ...one, hash: hashAt(index) }));
  expect((await judge(makePack(bombs))).results).toHaveLength(100);
  for (const nodes of [zeros, large]) expect(await bulk.read(nodes.map(({ hash }) => hash))).toHaveLength(9);
  expect(readPeakBytes() - received).toBeLessThan(MEMORY_MAX);
}, 300_000);

test('a pack ends where it has too many records or refs', async () => {
  const tiny = Array.from({ length: 4097 }, () => nextNode());
  const many = await judge(makePack(tiny.map(plain)));
  expect(many.results).toHaveLength(4096);
  const lastAt = 8 + tiny.slice(0, 4096).reduce((sum, node) => sum + recordBytes(plain(node)).length, 0);
  expect(many.broken).toEqual({ byte: lastAt, message: expect.stringContaining('4096') });
  const refs = Array.from({ length: 256 }, (_, index) => hashAt(index));
  const parents = Array.from({ length: 256 }, () => nextNode(refs));
  const over = nextNode([refs[0]!]);
  const wide = await judge(makePack([...parents, over, nextNode()].map(plain)));
  expect(wide.results).toHaveLength(256);
  expect(wide.broken.byte).toBe(8 + parents.reduce((sum, node) => sum + recordBytes(plain(node)).length, 0));
  const { json } = await bulk.leases([over.hash]);
  expect(json.results).toEqual([{ state: 'absent', hash: over.hash }]);
}, 300_000);

test('false lengths reserve no memory', async () => {
  const before = readPeakBytes();
  const lying: Partial<PlantedRecord>[] = [
    { storedLength: 2 ** 32 - 1, canonicalLength: NODE_BYTES_MAX, codec: 1 },
    { storedLength: PACK_BYTES_LIMIT, canonicalLength: NODE_BYTES_MAX, codec: 1 },
    { canonicalLength: 2 ** 32 - 1, codec: 1 },
    { canonicalLength: 0 },
    { storedLength: 0, canonicalLength: 0 },
  ];
  for (const lie of lying) {
    const { results, broken } = await judge(makePack([{ ...plain(nextNode()), ...lie }, plain(nextNode())]));
    expect([results, broken.byte]).toEqual([[], 8]);
  }
  expect(readPeakBytes() - before).toBeLessThan(MEMORY_MAX);
});

test('seeded mutations of packs are judged as a second, naive reader judges them', async () => {
  const edit = fc.oneof(
    fc.record({ kind: fc.constant('flip' as const), at: fc.nat(), by: fc.integer({ min: 1, max: 255 }) }),
    fc.record({ kind: fc.constant('cut' as const), at: fc.nat(), by: fc.nat({ max: 80 }) }),
    fc.record({ kind: fc.constant('double' as const), at: fc.nat(), by: fc.integer({ min: 1, max: 80 }) }),
  );
  const plan = fc.record({
    records: fc.array(fc.record({ isPacked: fc.boolean(), length: fc.nat({ max: 600 }) }), {
      minLength: 1,
      maxLength: 6,
    }),
    edits: fc.array(edit, { maxLength: 3 }),
  });
  await fc.assert(
    fc.asyncProperty(plan, async ({ records, edits }) => {
      const planted = records.map(({ isPacked, length }) => {
        const node = makeNode(`${++number} `.padEnd(length, 'fuzz '));
        return isPacked ? packed(node) : plain(node);
      });
      let pack: Buffer = makePack(planted);
      for (const { kind, at, by } of edits) {
        const start = at % (pack.length + 1);
        if (kind === 'cut') pack = Buffer.concat([pack.subarray(0, start), pack.subarray(start + by)]);
        else if (kind === 'double')
          pack = Buffer.concat([pack.subarray(0, start + by), pack.subarray(start)]);
        else if (start < pack.length) pack[start] = (pack[start] as number) ^ by;
      }
      const { results, broken } = await judge(pack);
      const expected = readPackNaively(pack, 7 * MIB);
      const lines = results.map(
        ({ hash, rejection }: { hash: string; rejection?: { code: string } }) =>
          `${hash} ${rejection?.code ?? 'good'}`,
      );
      expect({ lines, brokenAt: broken?.byte }).toEqual({
        lines: expected.lines,
        brokenAt: expected.brokenAt,
      });
    }),
    { seed: SEED, numRuns: 150 },
  );
  expect((await fetch(`${running.server.url}/health`)).status).toBe(200);
}, 300_000);
