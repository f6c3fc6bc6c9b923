/** The SDK's requests of Bulk against the real server, which judges the golden vectors and real bombs as the page says. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { constants, zstdCompressSync } from 'node:zlib';
import { type Bulk, type CasError, type Client, createClient } from '../packages/client/internal.ts';
import { findZstd } from '../packages/files/index.ts';
import { encodeNode, encodeRecord, type Hash, PackBuilder } from '../packages/protocol/index.ts';
import { sha256 } from '../packages/protocol/test/pack-fixture.ts';
import vectors from '../packages/protocol/test-vectors/pack-vectors.json';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { readResidentBytes } from './support/server-process.ts';

const MIB_BYTES = 1024 * 1024;
const LEASE = { leaseDurationMs: 3_600_000 };
const NODE_BYTES_MAX = 2 * MIB_BYTES;
const ZSTD = findZstd();
let bombs: readonly Uint8Array[] = [];

let running: RunningServer;

beforeAll(async () => {
  bombs = makeBombs();
  running = await startFreshServer('bulk-packs', { arguments: ['--max-node-bytes', String(NODE_BYTES_MAX)] });
});
afterAll(() => running.remove());

/** Each test has a Space of its own. */
function connect(spaceId: string, zstd = ZSTD): Client {
  const token = running.issuer.token(spaceId);
  return createClient({ baseUrl: running.server.url, appId: APP, spaceId, token, zstd });
}

interface Sample {
  readonly hash: Hash;
  readonly canonical: Uint8Array;
}

function nodeOf(content: string | Uint8Array, refs: readonly Hash[] = []): Sample {
  const canonical = encodeNode({ contentType: 'text/plain', refs, content: Buffer.from(content) });
  return { hash: sha256(canonical), canonical };
}

function packOf(nodes: readonly Sample[]): Uint8Array {
  const builder = new PackBuilder();
  for (const { hash, canonical } of nodes) builder.add(encodeRecord(hash, canonical, ZSTD?.compress));
  return builder.toBytes();
}

/** Opens a pack of its own, sends `pack` and leases it. */
async function send(bulk: Bulk, pack: Uint8Array, wanted: Hash) {
  const { pack: instruction } = await bulk.leaseNodes([wanted], { ...LEASE, pack: true });
  if (instruction === undefined) throw new Error('no pack was opened');
  expect(await bulk.uploadPack(instruction, pack)).toBe('accepted');
  return { id: instruction.id, ...(await bulk.leasePack(instruction.id, LEASE)) };
}

/** The answer in the words of the naive reader: waiting and ready nodes are good. */
function linesOf({ results }: Awaited<ReturnType<Bulk['leasePack']>>): string[] {
  return results.map((result) => {
    return `${result.hash} ${result.state === 'rejected' ? result.rejection.code : 'good'}`;
  });
}

async function contentsOf(bulk: Bulk, hashes: readonly Hash[]): Promise<Map<Hash, string>> {
  const found = new Map<Hash, string>();
  for await (const { hash, content } of bulk.readNodes(hashes))
    found.set(hash, Buffer.from(content).toString());
  return found;
}

test('a tree is written by one pack and read by another, compressed or not', async () => {
  const { bulk, getNode, getUsage } = connect('walk');
  const leaves = Array.from({ length: 300 }, (_, index) => nodeOf(`leaf ${index} `.repeat(index)));
  const hashes = leaves.map(({ hash }) => hash);
  const root = nodeOf('root', hashes.slice(0, 256));
  const all = [root, ...leaves];
  const first = await bulk.leaseNodes([root.hash, ...hashes], { ...LEASE, pack: true });
  expect(first.results.map(({ state }) => state)).toEqual(all.map(() => 'absent'));
  const again = await bulk.leaseNodes([root.hash, ...hashes], { ...LEASE, pack: true });
  expect(again.pack?.id).toBe(first.pack!.id);
  expect(await bulk.uploadPack(first.pack!, packOf(all))).toBe('accepted');
  expect(await bulk.uploadPack(first.pack!, packOf(all))).toBe('superseded');
  const leased = await bulk.leasePack(first.pack!.id, LEASE);
  expect(leased.broken).toBeUndefined();
  expect(leased.results.map(({ hash, state }) => [hash, state])).toEqual(
    all.map(({ hash }) => [hash, 'ready']),
  );
  expect(await bulk.leasePack(first.pack!.id, LEASE)).toMatchObject({
    results: leased.results.map(({ hash }) => ({ hash })),
  });

  const absent = nodeOf('nobody stored this').hash;
  for (const zstd of [ZSTD, undefined]) {
    const found = await contentsOf(connect('walk', zstd).bulk, [...hashes, absent, root.hash]);
    expect(found.size).toBe(301);
    expect([...found.keys()]).toEqual([...hashes, root.hash]);
    expect(found.get(hashes[7]!)).toBe('leaf 7 '.repeat(7));
  }
  const single = await getNode(root.hash);
  expect(single.metadata.refs).toEqual(hashes.slice(0, 256));
  expect(await getUsage()).toMatchObject({ nodeCount: 301, notReadyNodeCount: 0, reservedBytes: 0 });
});

test('unknown packs, foreign packs and packs without an upload are refused by their codes', async () => {
  const { bulk } = connect('refusals');
  const { hash } = nodeOf('refusals');
  const codeOf = (promise: Promise<unknown>) =>
    promise.then(
      () => 'none',
      (error: unknown) => (error as CasError).code,
    );
  expect(await codeOf(bulk.leasePack('0'.repeat(32), LEASE))).toBe('NOT_FOUND');
  const { pack } = await bulk.leaseNodes([hash], { ...LEASE, pack: true });
  expect(await codeOf(bulk.leasePack(pack!.id, LEASE))).toBe('CONFLICT');
  expect(await codeOf(connect('elsewhere').bulk.leasePack(pack!.id, LEASE))).toBe('NOT_FOUND');
  expect(bulk.isOffered).toBe(true);
  expect((await bulk.leaseNodes([hash], LEASE)).pack).toBeUndefined();
});

describe('a pack from outside', () => {
  test.each(vectors.map((vector) => [vector.name, vector] as const))('vector: %s', async (name, vector) => {
    const { bulk } = connect('vectors');
    const { broken, ...answer } = await send(bulk, Buffer.from(vector.packHex, 'hex'), nodeOf(name).hash);
    expect(linesOf(answer)).toEqual(vector.records.map(({ hash, outcome }) => `${hash} ${outcome}`));
    expect(broken?.byte).toBe(vector.broken?.byte as never);
  });

  test('of bombs takes little memory, and its good nodes are read', async () => {
    const { bulk } = connect('bombs');
    const [before, after, wanted] = ['before', 'after', 'wanted'].map((text) => nodeOf(text)) as [
      Sample,
      Sample,
      Sample,
    ];
    const builder = new PackBuilder();
    builder.add(encodeRecord(before.hash, before.canonical));
    for (let index = 0; index < 200; index++) {
      const stored = bombs[index % 2] as Uint8Array;
      const hash = index.toString(16).padStart(64, '0');
      builder.add({
        hash,
        codec: 1,
        storedLength: stored.length,
        canonicalLength: MIB_BYTES,
        stored,
        refCount: 0,
      });
    }
    const tooLarge = { hash: 'f'.repeat(64), codec: 1, canonicalLength: NODE_BYTES_MAX + 1 } as const;
    builder.add({ ...tooLarge, storedLength: 4, stored: Buffer.from('none'), refCount: 0 });
    builder.add(encodeRecord(after.hash, after.canonical));
    const { pack } = await bulk.leaseNodes([wanted.hash], { ...LEASE, pack: true });
    await bulk.uploadPack(pack!, builder.toBytes());
    const residentBytes = readResidentBytes(running.server.pid);
    const { value, peakBytes } = await watchMemory(bulk.leasePack(pack!.id, LEASE));
    expect(peakBytes - residentBytes).toBeLessThan(64 * MIB_BYTES);
    const { results, broken } = value;
    expect(broken).toBeUndefined();
    const good = { state: 'ready', hash: before.hash };
    expect(results[0]).toMatchObject(good);
    expect(results.at(-1)).toMatchObject({ ...good, hash: after.hash });
    const codes = results.slice(1, -1).map((result) => result.state === 'rejected' && result.rejection.code);
    expect(codes).toEqual([...Array(200).fill('INVALID_CANONICAL_NODE'), 'NODE_TOO_LARGE']);
  });
});

/**
 * Frames of compressed blocks for 256 MiB, behind headers that state 1 MiB and nothing at all: neither can be seen for what it is
 * before it is unpacked.
 */
function makeBombs(): readonly Uint8Array[] {
  const plain = Buffer.alloc(256 * MIB_BYTES, 'blocks of one byte alone would tell their size ');
  const frame = zstdCompressSync(plain, { params: { [constants.ZSTD_c_windowLog]: 20 } });
  // Magic, descriptor, window, a size of 4 bytes.
  const blocks = frame.subarray(10);
  expect(frame.subarray(4, 6).toString('hex')).toBe('8050');
  return [
    Buffer.concat([Buffer.from('28b52ffd805000001000', 'hex'), blocks]),
    Buffer.concat([Buffer.from('28b52ffd0050', 'hex'), blocks]),
  ];
}

/** What `promise` gives, and how much resident memory the server had at most until then. */
async function watchMemory<T>(
  promise: Promise<T>,
): Promise<{ readonly value: T; readonly peakBytes: number }> {
  let peakBytes = 0;
  let isDone = false;
  const value = promise.finally(() => {
    isDone = true;
  });
  while (!isDone) {
    peakBytes = Math.max(peakBytes, readResidentBytes(running.server.pid));
    await Bun.sleep(2);
  }
  return { value: await value, peakBytes };
}
