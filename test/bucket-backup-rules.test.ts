/** The rules of a backup of a bucket on a real Ceph: one case breaks each rule. */

import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { randomBytes } from 'node:crypto';
import { cpSync, type Dirent, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ObjectKeys } from '../packages/server/engine/s3/object-key.ts';
import { openCeph, type TestBuckets } from './support/ceph-server.ts';
import { formatContentUrl, makeS3Environment } from './support/cluster.ts';
import { sendToBucket, type TestBucket } from './support/s3-request.ts';
import { runHoldfast } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const START_MS_MAX = 300_000;
const TEST_MS_MAX = 900_000;
const OBJECTS = 3;
const BYTES = 20_000;
const KILL_POINT = join(import.meta.dir, 'support', 'kill-point.ts');
const keys = new ObjectKeys('');
const folder = makeTempFolder('bucket-rules');

let ceph: TestBuckets;
let bucket: TestBucket;
let dir: string;
let made = 0;
beforeAll(async () => {
  ceph = await openCeph();
}, START_MS_MAX);
afterAll(async () => {
  await ceph.close();
  folder.remove();
});
beforeEach(async () => {
  bucket = await makeBucket('one');
  for (let count = 0; count < OBJECTS; count += 1) await put(bucket);
  made += 1;
  dir = join(folder.path, `backup-${made}`);
});

/** A bucket that belongs to the deployment `storeId`. */
async function makeBucket(storeId: string): Promise<TestBucket> {
  const created = await ceph.createBucket();
  await send(created, keys.marker, storeId);
  return created;
}

async function send(to: TestBucket, key: string, body: string | Uint8Array<ArrayBuffer>): Promise<void> {
  expect((await sendToBucket(to, { method: 'PUT', key, body })).status).toBe(200);
}

async function put(to: TestBucket): Promise<string> {
  const object = { spaceKey: randomBytes(16).toString('hex'), generation: randomBytes(16).toString('hex') };
  const key = keys.keyOf(object);
  await send(to, key, new Uint8Array(randomBytes(BYTES)));
  return key;
}

async function run(at: TestBucket, words: readonly string[], more: Record<string, string> = {}) {
  const { exitCode, stdout, stderr } = await runHoldfast([...words, '--json', '--quiet'], {
    environment: { ...makeS3Environment(at), ...more },
  });
  return { exitCode, stderr, json: stdout === '' ? undefined : JSON.parse(stdout) };
}

const backUp = (at: TestBucket, endpoint?: string) =>
  run(at, ['backup', dir, '--content', formatContentUrl(at, endpoint)]);
const restore = (at: TestBucket) => run(at, ['restore', dir, '--content', formatContentUrl(at)]);
const check = () => run(bucket, ['backup', 'check', dir]);

/** The object that the first line of a list names. */
function parsePath(lines: string) {
  const [, spaceKey = '', generation = ''] = /^..\/([0-9a-f]+)\/([0-9a-f]+) /.exec(lines) ?? [];
  return { spaceKey, generation };
}

/** The file with the list of objects; the former one stays beside it. */
function findList(): string {
  const sequences = readdirSync(join(dir, 'lists')).map((name) => Number.parseInt(name, 10));
  return join(dir, 'lists', `${Math.max(...sequences)}.bucket`);
}

test(
  'a bucket without a marker, the backup of another bucket, and one that is being made are refused',
  async () => {
    const unmarked = await ceph.createBucket();
    const strange = await backUp(unmarked);
    expect([strange.exitCode, strange.stderr]).toEqual([1, expect.stringContaining('has no marker')]);

    expect(await backUp(bucket)).toMatchObject({ exitCode: 0, json: { nodes: OBJECTS } });
    const other = await makeBucket('another');
    const mixed = await backUp(other);
    expect([mixed.exitCode, mixed.stderr]).toEqual([
      1,
      expect.stringContaining("another deployment's bucket"),
    ]);
    const misplaced = await restore(other);
    expect([misplaced.exitCode, misplaced.stderr]).toEqual([
      1,
      expect.stringContaining('belongs to another deployment'),
    ]);

    using held = new Database(join(dir, 'lock.db'));
    held.run('BEGIN EXCLUSIVE');
    expect((await backUp(bucket)).exitCode).toBe(1);
    held.run('ROLLBACK');
    expect(await check()).toMatchObject({ exitCode: 0, json: { ok: true, nodes: OBJECTS } });
  },
  TEST_MS_MAX,
);

test(
  'a list that was changed, one that is missing and a manifest of a newer version are found',
  async () => {
    await backUp(bucket);
    const whole = join(folder.path, `whole-${made}`);
    cpSync(dir, whole, { recursive: true });
    const mend = (): void => {
      rmSync(dir, { recursive: true });
      cpSync(whole, dir, { recursive: true });
    };

    const lines = readFileSync(findList(), 'utf8');
    writeFileSync(findList(), lines.slice(lines.indexOf('\n') + 1));
    expect(await check()).toMatchObject({
      exitCode: 1,
      json: { ok: false, damagedFiles: ['the list of objects'] },
    });

    await sendToBucket(bucket, { method: 'DELETE', key: keys.keyOf(parsePath(lines)) });
    const partly = await restore(bucket);
    expect([partly.exitCode, partly.stderr]).toEqual([1, expect.stringContaining('the list of objects')]);

    mend();
    rmSync(findList());
    const missing = await check();
    expect(missing).toMatchObject({ exitCode: 1, json: { damagedFiles: ['the list of objects'] } });
    await sendToBucket(bucket, { method: 'DELETE', key: keys.keyOf(parsePath(lines)) });
    const unlisted = await restore(bucket);
    expect([unlisted.exitCode, unlisted.stderr]).toEqual([1, expect.stringContaining('the list of objects')]);
    expect(await restore(bucket)).toMatchObject({ exitCode: 1 });

    mend();
    const manifest = JSON.parse(readFileSync(join(dir, 'BUCKET'), 'utf8'));
    writeFileSync(join(dir, 'BUCKET'), JSON.stringify({ ...manifest, format: manifest.format + 1 }));
    for (const newer of [await check(), await backUp(bucket), await restore(bucket)]) {
      expect([newer.exitCode, newer.stderr]).toEqual([1, expect.stringContaining('newer Holdfast')]);
    }
    mend();
    expect(await check()).toMatchObject({ exitCode: 0, json: { ok: true } });
  },
  TEST_MS_MAX,
);

test(
  'bytes that change on their way are not kept, and the same command copies them well',
  async () => {
    let isFlipping = true;
    await using proxy = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch(request) {
        const { pathname, search } = new URL(request.url);
        const answer = await fetch(`${bucket.endpoint}${pathname}${search}`, {
          method: request.method,
          headers: request.headers,
        });
        const bytes = new Uint8Array(await answer.arrayBuffer());
        const isFlipped = isFlipping && request.method === 'GET' && bytes.length === BYTES;
        if (isFlipped) {
          isFlipping = false;
          bytes[0] = (bytes[0] as number) ^ 1;
        }
        return new Response(bytes, { status: answer.status, headers: answer.headers });
      },
    });
    const endpoint = `http://127.0.0.1:${proxy.port}`;
    const flipped = await backUp(bucket, endpoint);
    expect([flipped.exitCode, flipped.stderr]).toEqual([1, expect.stringContaining('other bytes')]);
    expect(isFlipping).toBe(false);
    expect(await backUp(bucket, endpoint)).toMatchObject({ exitCode: 0, json: { nodes: OBJECTS } });
    const objects = readdirSync(join(dir, 'objects'), { recursive: true, withFileTypes: true });
    expect(objects.filter((entry) => entry.isFile())).toHaveLength(OBJECTS);
    expect(await check()).toMatchObject({ exitCode: 0, json: { ok: true } });
  },
  TEST_MS_MAX,
);

test(
  'an object that is there again counts as gone only from when it goes again',
  async () => {
    const key = await put(bucket);
    const kept = async (keepGone: string): Promise<number> => {
      const words = ['backup', dir, '--content', formatContentUrl(bucket), '--keep-gone', keepGone];
      return (await run(bucket, words)).json.nodes;
    };
    const goneAtOf = (): number => {
      const line = readFileSync(findList(), 'utf8')
        .split('\n')
        .find((each) => key.endsWith(each.split(' ')[0] as string));
      return Number(line?.split(' ')[3]);
    };
    expect(await kept('1d')).toBe(OBJECTS + 1);
    expect(goneAtOf()).toBe(0);
    await sendToBucket(bucket, { method: 'DELETE', key });
    expect(await kept('1d')).toBe(OBJECTS + 1);
    const goneAt = goneAtOf();
    expect(goneAt).toBeGreaterThan(0);
    // The first time counts, however often it is missed.
    expect(await kept('1d')).toBe(OBJECTS + 1);
    expect(goneAtOf()).toBe(goneAt);
    expect((await restore(bucket)).json).toMatchObject({ restored: 1 });
    expect(await kept('1ms')).toBe(OBJECTS + 1);
    expect(goneAtOf()).toBe(0);
    await sendToBucket(bucket, { method: 'DELETE', key });
    expect(await kept('1ms')).toBe(OBJECTS + 1);
    expect(goneAtOf()).toBeGreaterThan(goneAt);
    expect(await kept('1ms')).toBe(OBJECTS);
  },
  TEST_MS_MAX,
);

test(
  'bytes that change silently in the backup are found, and are not put back',
  async () => {
    const key = await put(bucket);
    await backUp(bucket);
    const { spaceKey, generation } = keys.findObject(key) as { spaceKey: string; generation: string };
    const space = readdirSync(join(dir, 'objects'), { recursive: true, withFileTypes: true });
    const file = space.find(({ name }) => name.startsWith(generation)) as Dirent;
    const path = join(file.parentPath, file.name);
    const bytes = readFileSync(path);
    bytes[BYTES - 1] = (bytes[BYTES - 1] as number) ^ 1;
    writeFileSync(path, bytes);
    const checked = await check();
    expect(checked).toMatchObject({ exitCode: 1, json: { ok: false, nodes: OBJECTS + 1 } });
    expect(checked.json.damagedFiles).toEqual([expect.stringContaining(`${spaceKey}/${generation}`)]);
    await sendToBucket(bucket, { method: 'DELETE', key });
    const refused = await restore(bucket);
    expect([refused.exitCode, refused.stderr]).toEqual([1, expect.stringContaining(generation)]);
    expect((await sendToBucket(bucket, { method: 'HEAD', key })).status).toBe(404);
  },
  TEST_MS_MAX,
);

test(
  'a bucket without a marker that takes a backup belongs to its deployment from then on',
  async () => {
    await backUp(bucket);
    const empty = await ceph.createBucket();
    expect(await restore(empty)).toMatchObject({ exitCode: 0, json: { restored: OBJECTS } });
    const marker = await sendToBucket(empty, { method: 'GET', key: keys.marker });
    expect([marker.status, (await marker.text()).trim()]).toEqual([200, 'one']);
    expect(await backUp(empty)).toMatchObject({ exitCode: 0, json: { nodes: OBJECTS, copiedBytes: 0 } });
  },
  TEST_MS_MAX,
);

test(
  'a backup that is killed before its manifest is in place leaves the former list and all its files',
  async () => {
    const key = await put(bucket);
    await backUp(bucket);
    await sendToBucket(bucket, { method: 'DELETE', key });
    await put(bucket);
    const words = ['backup', dir, '--content', formatContentUrl(bucket), '--keep-gone', '1ms'];
    // It notes what has gone, so that the next one lets it go.
    await run(bucket, words);
    const killed = await run(bucket, words, {
      BUN_OPTIONS: `--preload=${KILL_POINT}`,
      HOLDFAST_TEST_KILL_AT: 'rename:/BUCKET.new:1',
    });
    expect(killed).toMatchObject({ exitCode: 137, json: undefined });
    expect(await check()).toMatchObject({ exitCode: 0, json: { ok: true, nodes: OBJECTS + 2 } });
    expect(await run(bucket, words)).toMatchObject({ exitCode: 0, json: { nodes: OBJECTS + 1 } });
    expect(await check()).toMatchObject({ exitCode: 0, json: { ok: true, nodes: OBJECTS + 1 } });
  },
  TEST_MS_MAX,
);
