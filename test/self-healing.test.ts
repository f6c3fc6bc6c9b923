/**
 * Bytes of a real server are damaged on its disk: it never serves them as good and answers 503 every time, the metadata stays,
 * and the next lease asks for the bytes and heals the node with everything that depends on it.
 */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { appendFileSync, truncateSync } from 'node:fs';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import { ByteSpoiler, databasePath, objectPath } from './support/embedded-files.ts';
import { recount } from './support/embedded-recount.ts';
import { readPlace } from './support/read-place.ts';
import { type RunningServer, startFreshServer } from './support/running-server.ts';
import type { SpaceClient } from './support/space-client.ts';
import { until } from './support/until.ts';

const MIB = 1024 * 1024;
const INLINE_BYTES = 2000;
const FILE_BYTES = 400_000;
/** Three times a scrub that starts with the server comes to a handful of nodes. */
const SCRUBS_MS_MAX = 180_000;

let running: RunningServer;
let client: SpaceClient;
let spoiler: ByteSpoiler;
let seed = 1;

beforeAll(async () => {
  running = await startFreshServer('healing');
  client = running.client();
  spoiler = new ByteSpoiler(running.data);
}, 300_000);

/** A test that fails between two servers must not fail the next ones. */
beforeEach(async () => {
  if (!running.server.isRunning()) await restart();
});

afterAll(async () => {
  await running.remove();
});

function nextNode(size: number, refs: readonly string[] = []): CanonicalNode {
  seed += 1;
  return makeNode(seededBytes(size, seed), { refs });
}

async function restart(): Promise<void> {
  await running.restart('SIGTERM');
  client = running.client();
}

const placeOf = (hash: string): ReturnType<typeof readPlace> => readPlace(running.data, hash);

async function expectContent(node: CanonicalNode): Promise<void> {
  const response = await client.content(node.hash);
  expect(response.status).toBe(200);
  expect(Buffer.compare(await response.bytes(), node.content)).toBe(0);
}

/** 503 with the right error, or a connection that broke: never an answer that looks complete. */
async function expectRefused(node: CanonicalNode, range?: string): Promise<void> {
  const response = await client.content(node.hash, range);
  if (response.status === 503) {
    expect(((await response.json()) as { error: string }).error).toBe('SERVICE_UNAVAILABLE');
    return;
  }
  expect([200, 206]).toContain(response.status);
  const outcome = await response.bytes().then(
    (bytes) => `${bytes.length} bytes, complete`,
    () => 'broken',
  );
  expect(outcome).toBe('broken');
}

/** Checks every promise for one rotten node that is leased, rooted and referenced. */
async function expectRottenThenHeal(node: CanonicalNode): Promise<void> {
  const before = await client.metadata(node.hash);
  for (let read = 0; read < 3; read += 1) await expectRefused(node);
  expect((await client.content(node.hash, 'bytes=0-0')).status).toBe(503);
  expect(await client.metadata(node.hash)).toEqual(before);
  const first = await client.lease(node.hash);
  expect(first.json.state).toBe('awaiting_upload');
  expect(await client.metadata(node.hash)).toEqual(before);
  expect((await client.put(first.json.upload, node.bytes)).status).toBe(200);
  expect((await client.content(node.hash)).status).toBe(503);
  const { state } = before.json;
  const healed = await client.lease(node.hash);
  expect(healed.json.state).toBe('ready');
  expect(healed.json.leaseStartedAt).toBe(state.leaseStartedAt);
  expect(healed.json.leaseExpiresAt).toBeGreaterThanOrEqual(state.leaseExpiresAt);
  const after = await client.metadata(node.hash);
  expect(after.json).toEqual({
    metadata: before.json.metadata,
    state: { ...state, leaseExpiresAt: healed.json.leaseExpiresAt },
  });
  await expectContent(node);
  expect((await client.put(first.json.upload, node.bytes)).status).toBe(412);
}

/** A node with a child, two parents' edges, a root ref and a lease. */
async function storeHeldNode(size: number): Promise<CanonicalNode> {
  const child = nextNode(100);
  await client.store(child);
  const node = nextNode(size, [child.hash, child.hash]);
  await client.store(node, 600_000);
  const parent = nextNode(50, [node.hash, child.hash, node.hash]);
  await client.store(parent);
  const { status } = await client.commit(`hold ${node.hash}`, { [node.hash]: 3 });
  expect(status).toBe(200);
  const { json } = await client.metadata(node.hash);
  expect({ childRefCount: json.state.childRefCount, rootRefCount: json.state.rootRefCount }).toEqual({
    childRefCount: 2,
    rootRefCount: 3,
  });
  return node;
}

type Damage = (hash: string) => void;

const damages: readonly [name: string, size: number, damage: Damage][] = [
  ['the last byte of a small node', INLINE_BYTES, (hash) => spoiler.spoil(placeOf(hash), 'flipped')],
  [
    'a byte in the middle of a small node',
    INLINE_BYTES,
    (hash) => spoiler.spoil(placeOf(hash), 'flipped', 900),
  ],
  ['a byte of a small node’s refs', INLINE_BYTES, (hash) => spoiler.spoil(placeOf(hash), 'flipped', 60)],
  ['all bytes of a small node', INLINE_BYTES, (hash) => spoiler.spoil(placeOf(hash), 'lost')],
  ['the last byte of a file', FILE_BYTES, (hash) => spoiler.spoil(placeOf(hash), 'flipped')],
  ['the first content byte of a file', FILE_BYTES, (hash) => spoiler.spoil(placeOf(hash), 'flipped', 200)],
  ['the whole file', FILE_BYTES, (hash) => spoiler.spoil(placeOf(hash), 'lost')],
  ['the end of a file', FILE_BYTES, (hash) => truncateSync(pathOf(hash), FILE_BYTES - 1)],
  ['everything in a file', FILE_BYTES, (hash) => truncateSync(pathOf(hash), 0)],
];

function pathOf(hash: string): string {
  return objectPath(running.data, placeOf(hash).generation);
}

describe('damage under a running server', () => {
  for (const [name, size, damage] of damages) {
    test(name, async () => {
      const node = await storeHeldNode(size);
      await expectContent(node);
      damage(node.hash);
      await expectRottenThenHeal(node);
    });
  }
});

describe('damage while no server runs', () => {
  for (const [name, size, damage] of damages) {
    test(name, async () => {
      const node = await storeHeldNode(size);
      await running.server.end('SIGTERM');
      damage(node.hash);
      await restart();
      await expectRottenThenHeal(node);
    });
  }
});

describe('only what is damaged is refused', () => {
  const LARGE_BYTES = 9 * MIB;

  test('late in a large content: ranges before it are served, ranges that touch it are not', async () => {
    const node = nextNode(LARGE_BYTES);
    await client.store(node);
    // Before the damage: what follows finds it, or the scrub does.
    const usage = await client.usage();
    spoiler.spoil(placeOf(node.hash), 'flipped', 8 * MIB);
    const early = await client.content(node.hash, 'bytes=1000-1099');
    expect(early.status).toBe(206);
    expect(Buffer.compare(await early.bytes(), node.content.subarray(1000, 1100))).toBe(0);
    await expectRefused(node);
    expect((await client.usage()).notReadyNodeCount).toBe(usage.notReadyNodeCount + 1);
    await expectRefused(node, 'bytes=1000-1099');
    await client.store(node);
    await expectContent(node);
  });

  test('a range over the damage is refused although the rest is good', async () => {
    const node = nextNode(LARGE_BYTES);
    await client.store(node);
    const middle = 4 * MIB;
    spoiler.spoil(placeOf(node.hash), 'flipped', middle);
    await expectRefused(node, `bytes=${middle - 500}-${middle + 500}`);
    await client.store(node);
    await expectContent(node);
  });

  test('bytes appended to a file are not content', async () => {
    const node = nextNode(FILE_BYTES);
    await client.store(node);
    appendFileSync(pathOf(node.hash), 'more');
    const response = await client.content(node.hash);
    if (response.status === 200) expect(Buffer.compare(await response.bytes(), node.content)).toBe(0);
    else expect(response.status).toBe(503);
    await client.store(node);
    await expectContent(node);
  });

  test('the integrity record itself', async () => {
    const node = nextNode(FILE_BYTES);
    await client.store(node);
    const { generation } = placeOf(node.hash);
    await running.server.end('SIGTERM');
    const database = new Database(databasePath(running.data));
    const key = Buffer.from(generation, 'hex');
    const row = database
      .query<{ integrity: Uint8Array }, [Uint8Array]>('SELECT integrity FROM contents WHERE generation = ?')
      .get(key);
    const record = Uint8Array.from(row?.integrity ?? []);
    record[record.length - 1] = (record.at(-1) as number) ^ 0xff;
    const { changes } = database.run('UPDATE contents SET integrity = ? WHERE generation = ?', [record, key]);
    database.close();
    expect(changes).toBe(1);
    await restart();
    await expectRefused(node);
    await client.store(node);
    await expectContent(node);
  });

  test('a node whose child is rotten heals by its own bytes alone', async () => {
    const child = nextNode(FILE_BYTES);
    await client.store(child);
    const parent = nextNode(FILE_BYTES, [child.hash]);
    await client.store(parent);
    for (const { hash } of [child, parent]) spoiler.spoil(placeOf(hash), 'lost');
    await expectRefused(child);
    await expectRefused(parent);
    expect((await client.store(parent)).json.state).toBe('ready');
    await expectContent(parent);
    await expectRefused(child);
    const above = nextNode(10, [parent.hash, child.hash]);
    const waiting = await client.store(above);
    expect(waiting.json).toEqual({
      state: 'validated_awaiting_children',
      hash: above.hash,
      childHashes: [child.hash],
    });
    await client.store(child);
    expect((await client.lease(above.hash)).json.state).toBe('ready');
  });

  test('wrong bytes do not heal, and are rejected with the reason', async () => {
    const node = nextNode(FILE_BYTES);
    await client.store(node);
    spoiler.spoil(placeOf(node.hash), 'lost');
    await expectRefused(node);
    const { json } = await client.lease(node.hash);
    expect((await client.put(json.upload, node.bytes.subarray(1))).status).toBe(200);
    const rejected = await client.lease(node.hash);
    expect(rejected.json.state).toBe('awaiting_replacement_upload');
    expect(rejected.json.rejection.code).toBe('NODE_DIGEST_MISMATCH');
    expect((await client.metadata(node.hash)).status).toBe(200);
    expect((await client.put(rejected.json.upload, node.bytes)).status).toBe(200);
    expect((await client.lease(node.hash)).json.state).toBe('ready');
    await expectContent(node);
  });
});

describe('the scrub', () => {
  test(
    'finds damage nobody has read, and takes back a file that returns',
    async () => {
      const nodes = [nextNode(FILE_BYTES), nextNode(INLINE_BYTES)];
      for (const node of nodes) await client.store(node);
      const places = nodes.map(({ hash }) => placeOf(hash));
      const { notReadyNodeCount } = await client.usage();
      await running.server.end('SIGTERM');
      for (const place of places) spoiler.spoil(place, 'lost');
      await restart();
      await until(async () => (await client.usage()).notReadyNodeCount === notReadyNodeCount + nodes.length);
      for (const node of nodes) await expectRefused(node);
      await running.server.end('SIGTERM');
      for (const place of places) spoiler.restore(place);
      await restart();
      await until(async () => (await client.usage()).notReadyNodeCount === notReadyNodeCount);
      for (const node of nodes) await expectContent(node);
    },
    SCRUBS_MS_MAX,
  );
});

test('after all of it the rows are as a recount says', async () => {
  expect(await running.server.end('SIGTERM')).toBe(0);
  expect(recount(running.data).problems).toEqual([]);
  expect(running.server.log()).not.toMatch(/INTERNAL_ERROR|unhandled/i);
});
