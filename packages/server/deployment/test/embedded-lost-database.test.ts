/** A database that is missing or cut off ends the start: a lost deployment is never taken for a new one. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NEVER_WALKED } from '../../core/root-ref-walks.ts';
import { orIfDamaged } from '../../core/store-failure.ts';
import { EngineRefused } from '../../engine/refused.ts';
import { DatabaseDamaged } from '../../engine/sqlite/database.ts';
import { hashAt, ManualClock } from '../../engine/test/samples.ts';
import { openEmbeddedEngine } from './embedded-engine-fixture.ts';

let dataDir: string;
let path: string;
let marker: string;

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'holdfast-lost-'));
  path = join(dataDir, 'holdfast.db');
  marker = join(dataDir, 'content', 'STORE');
  await start();
});
afterEach(() => rm(dataDir, { recursive: true }));

function open() {
  const onFatal = (error: Error): never => {
    throw error;
  };
  return openEmbeddedEngine({ dataDir, workers: 1, clock: new ManualClock(), onFatal });
}

async function start(): Promise<void> {
  await (await open()).close();
}

/** The refusal of a start on the folder as it is. */
const refusal = (): Promise<unknown> =>
  start().then(
    () => undefined,
    (error) => (error instanceof EngineRefused ? error : error.cause),
  );

test('a first start that ended before the rows knew the content folder begins anew, later it goes on', async () => {
  const id = await readFile(marker, 'utf8');
  // Recorded, and not yet the marker.
  await rename(marker, `${marker}.new`);
  await start();
  expect(await readFile(marker, 'utf8')).toBe(id);
  // A draft alone.
  await rename(marker, `${marker}.new`);
  await rm(path);
  await start();
  expect(await readFile(marker, 'utf8')).not.toBe(id);
  await start();
});

test('a draft of another id is no marker', async () => {
  await rm(marker);
  await writeFile(`${marker}.new`, 'another');
  expect(await refusal()).toBeInstanceOf(EngineRefused);
});

test('a database that was lost, emptied or cut off is not taken for a new one', async () => {
  const whole = await readFile(path);
  for (const length of [
    1,
    99,
    100,
    511,
    512,
    4095,
    whole.length - 4095,
    whole.length - 17,
    whole.length - 1,
  ]) {
    await writeFile(path, whole.subarray(0, length));
    expect([length, await refusal()]).toEqual([length, expect.any(DatabaseDamaged)]);
  }
  for (const lose of [() => writeFile(path, ''), () => rm(path)]) {
    await lose();
    const refused = await refusal();
    expect(refused).toBeInstanceOf(EngineRefused);
    expect((refused as Error).message).toContain('restore a backup');
  }
  await writeFile(path, whole);
  await start();
});

test('a half-written page after a crash is not taken for damage if the log has it whole', async () => {
  const database = new Database(path);
  database.run('PRAGMA wal_autocheckpoint = 0');
  for (let id = 1; id <= 500; id += 1) {
    database.run(`INSERT INTO spaces (id, app_id, space_id) VALUES (${id}, 'app', 'space-${id}')`);
  }
  const [file, log] = [await readFile(path), await readFile(`${path}-wal`)];
  database.close();
  for (const suffix of ['', '-wal', '-shm']) await rm(`${path}${suffix}`, { force: true });
  await writeFile(path, Buffer.concat([file, new Uint8Array(1000)]));
  await writeFile(`${path}-wal`, log);
  await start();
  const after = new Database(path, { readonly: true });
  expect(after.query('SELECT count(*) AS count FROM spaces').get()).toEqual({ count: 500 });
  after.close();
});

test('one wrong bit in the name of a Space or domain, or in an index of them, makes neither look absent', async () => {
  const name = 'of a Space and of a domain';
  const space = { appId: 'app', spaceId: name };
  const page = { revision: 'current', after: undefined, limit: 10 } as const;
  const expected = { revision: 1, walkedUntil: NEVER_WALKED, items: [{ hash: hashAt(1), balance: 2 }] };
  const first = await open();
  const commit = { requestId: 'one', payloadDigest: new Uint8Array(32), revision: 1 };
  const changes = [{ hash: hashAt(1), before: 0, after: 2 }];
  await first.metadata.transact(space, (tx) => tx.insertRootRefCommit(name, commit, changes));
  await first.close();
  const whole = await readFile(path);
  let places = 0;
  for (let at = whole.indexOf(name); at >= 0; at = whole.indexOf(name, at + 1), places += 1) {
    const damaged = Buffer.from(whole);
    damaged[at] = (damaged[at] as number) ^ 1;
    await writeFile(path, damaged);
    const engine = await open();
    const found = await orIfDamaged(
      async () => engine.metadata.findBalancesAt(space, name, page),
      () => 'damaged',
    );
    expect([places, found === 'damaged' ? expected : found]).toEqual([places, expected]);
    await engine.close();
  }
  expect(places).toBe(4);
});
