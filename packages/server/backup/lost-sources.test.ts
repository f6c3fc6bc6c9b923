/** Backups of data folders that have lost something, or that are not the ones they were: the former backup stays what it was. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { objectsFolder } from '../../../test/support/embedded-files.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { runGc } from '../core/run-gc.ts';
import { CoreWorld, MINUTE_MS, objectNode, SPACE } from '../core/test/core-fixture.ts';
import { PackClient } from '../core/test/pack-fixture.ts';
import { makeBackup } from './make-backup.ts';
import { restoreBackup } from './restore-backup.ts';

const OBJECTS = 6;
const umask = process.umask();
let folder: ReturnType<typeof makeTempFolder>;
let world: CoreWorld;
let backup: string;

beforeEach(async () => {
  folder = makeTempFolder('lost-sources');
  backup = join(folder.path, 'backup');
  world = await CoreWorld.open();
  const nodes = Array.from({ length: OBJECTS }, (_, index) => objectNode(index));
  await world.publish(...nodes);
  await world.keep(nodes);
});
afterEach(async () => {
  await world.close().catch(() => undefined);
  process.umask(umask);
  folder.remove();
});

const back = (dataDir = world.dataDir, into = backup) =>
  makeBackup({ dataDir, folder: into }, { onProgress: () => undefined });
const restore = (dataDir: string) =>
  restoreBackup({ folder: backup, dataDir }, { onProgress: () => undefined });
const copies = () =>
  readdirSync(join(backup, 'objects'), { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  ).length;

/** Moves all objects away while `work` is done. */
async function withoutObjects(work: () => Promise<void>): Promise<void> {
  const objects = objectsFolder(world.dataDir);
  const away = `${objects}.away`;
  renameSync(objects, away);
  for (const shard of readdirSync(away)) mkdirSync(join(objects, shard), { recursive: true });
  try {
    await work();
  } finally {
    rmSync(objects, { recursive: true });
    renameSync(away, objects);
  }
}

test('what the rows name stays in the backup when the data folder has lost it, and that is told', async () => {
  const inPack = Array.from({ length: 5 }, (_, index) => objectNode(100 + index));
  await new PackClient(world, false).send(inPack);
  await world.keep(inPack);
  expect((await back()).lostObjects).toBe(0);
  expect(copies()).toBe(OBJECTS + 1);
  await withoutObjects(async () => {
    for (let round = 0; round < 2; round += 1) expect((await back()).lostObjects).toBe(OBJECTS + 1);
    expect(copies()).toBe(OBJECTS + 1);
  });
  expect((await restore(join(folder.path, 'restored'))).nodes).toBe(OBJECTS + inPack.length);
});

test('what was collected since goes from the backup', async () => {
  const gone = Array.from({ length: 3 }, (_, index) => objectNode(200 + index));
  await world.publish(...gone);
  await back();
  expect(copies()).toBe(OBJECTS + gone.length);
  world.now += 2 * MINUTE_MS;
  expect((await runGc(world.core, SPACE, 100)).deleted).toBe(gone.length);
  await world.sweepAll();
  expect((await back()).lostObjects).toBe(0);
  expect(copies()).toBe(OBJECTS);
});

test('a content folder that is not that of the rows is refused, and the former backup is as it was', async () => {
  await back();
  const content = join(world.dataDir, 'content');
  renameSync(content, `${content}.away`);
  mkdirSync(content);
  try {
    await expect(back()).rejects.toThrow('is its disk mounted? The former backup is unchanged');
  } finally {
    rmSync(content, { recursive: true });
    renameSync(`${content}.away`, content);
  }
  expect(copies()).toBe(OBJECTS);
  expect((await restore(join(folder.path, 'restored'))).nodes).toBe(OBJECTS);
});

test('another deployment is refused; what was restored from the backup may go on with it', async () => {
  await back();
  const other = await CoreWorld.open();
  try {
    await expect(back(other.dataDir)).rejects.toThrow('holds the backup of another deployment');
  } finally {
    await other.close();
  }
  expect(copies()).toBe(OBJECTS);
  const restored = join(folder.path, 'restored');
  await restore(restored);
  expect(await back(restored)).toMatchObject({ nodes: OBJECTS, lostObjects: 0 });
  expect(copies()).toBe(OBJECTS);
});
