/** Backups of data folders that lost something or were replaced: the former backup stays unchanged. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { objectsFolder } from '../../../test/support/embedded-files.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { runGc } from '../core/collect/run-gc.ts';
import { scrub } from '../core/collect/scrub.ts';
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

const back = (dataDir = world.dataDir, into = backup, onProgress: (step: string) => void = () => undefined) =>
  makeBackup({ dataDir, folder: into }, { onProgress });
const restore = (dataDir: string) =>
  restoreBackup({ folder: backup, dataDir }, { onProgress: () => undefined });
const copies = () =>
  readdirSync(join(backup, 'objects'), { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  ).length;

/** Runs `work` while all objects are moved away. */
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

/** The object's file in the data folder. */
function findObject(node: { readonly bytes: Uint8Array }): string {
  const root = objectsFolder(world.dataDir);
  const files = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const found = files.map((entry) => join(entry.parentPath, entry.name));
  const path = found.find((each) => readFileSync(each).equals(Buffer.from(node.bytes)));
  if (path === undefined) throw new Error('no such object');
  return path;
}

test('an object that the pinned rows name and no pass has met is copied with a later commit', async () => {
  await back();
  const late = objectNode(300);
  await world.publish(late);
  const path = findObject(late);
  renameSync(path, `${path}.away`);
  let proofs = 0;
  await back(world.dataDir, backup, (step) => {
    if (step.startsWith('proving') && ++proofs === 2) renameSync(`${path}.away`, path);
  });
  expect(proofs).toBeGreaterThan(2);
  expect((await restore(join(folder.path, 'restored'))).nodes).toBe(OBJECTS + 1);
});

test('what the rows name and nobody has ends the backup, unless the node is rotten; the former one stays', async () => {
  await back();
  const former = readFileSync(join(backup, 'BACKUP'));
  const lost = objectNode(301);
  await world.publish(lost);
  const path = findObject(lost);
  const bytes = readFileSync(path);
  for (const spoil of [() => writeFileSync(path, bytes.subarray(1)), () => rmSync(path)]) {
    spoil();
    await expect(back()).rejects.toThrow('the former backup is unchanged');
    expect(readFileSync(join(backup, 'BACKUP')).equals(former)).toBe(true);
  }
  await scrub(world.core, undefined);
  expect((await back()).nodes).toBe(OBJECTS + 1);
  writeFileSync(path, bytes);
});

test('the copy of a node that is rotten stays in the backup', async () => {
  await back();
  await withoutObjects(async () => {
    await scrub(world.core, undefined);
    expect((await back()).lostObjects).toBe(OBJECTS);
    expect((await back()).lostObjects).toBe(OBJECTS);
  });
  expect(copies()).toBe(OBJECTS);
});

test('a copy that the backup has lost is made again', async () => {
  await back();
  const [copy, other] = readdirSync(join(backup, 'objects'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name)) as [string, string];
  rmSync(copy);
  writeFileSync(other, 'short');
  expect((await back()).lostObjects).toBe(0);
  expect((await restore(join(folder.path, 'restored'))).nodes).toBe(OBJECTS);
});

test('what was collected since goes from the backup with the backup that still needs it', async () => {
  const gone = Array.from({ length: 3 }, (_, index) => objectNode(200 + index));
  await world.publish(...gone);
  await back();
  expect(copies()).toBe(OBJECTS + gone.length);
  world.now += 2 * MINUTE_MS;
  expect((await runGc(world.core, SPACE, 100)).deleted).toBe(gone.length);
  await world.sweepAll();
  expect((await back()).lostObjects).toBe(0);
  // The list of the former backup leads to all its copies.
  expect(copies()).toBe(OBJECTS + gone.length);
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
