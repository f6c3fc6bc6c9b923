/** Restoring a damaged backup yields all intact data and names the damage. It never leaves its folder. */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { CanonicalNode } from '../../../test/support/canonical-node.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { updateRootRefs } from '../core/refs/update-root-refs.ts';
import { REVISION_STEP } from '../core/store-epoch.ts';
import { CoreWorld, objectNode, SPACE, smallNode } from '../core/test/core-fixture.ts';
import { holdDataFolder, tryDataFolder } from '../deployment/data-folder.ts';
import { checkBackup } from './check-backup.ts';
import { makeBackup } from './make-backup.ts';
import { restoreBackup } from './restore-backup.ts';

const SMALL = 200;
const OBJECTS = 4;
const umask = process.umask();
const folder = makeTempFolder('damaged-backups');
const whole = join(folder.path, 'whole');
const small = Array.from({ length: SMALL }, (_, index) => smallNode(index));
const objects = Array.from({ length: OBJECTS }, (_, index) => objectNode(index));
let world: CoreWorld;
let made = 0;
/** a copy of the backup for one test */
let backup: string;

beforeAll(async () => {
  world = await CoreWorld.open();
  await world.publish(...small, ...objects);
  await world.keep([...small, ...objects]);
  const changes = small.slice(0, 1).map(({ hash }) => ({ hash, delta: 1 }));
  await updateRootRefs(world.core, SPACE, 'kept', { requestId: 'kept', changes });
  await makeBackup({ dataDir: world.dataDir, folder: whole }, { onProgress: () => undefined });
});
afterAll(async () => {
  await world.close();
  process.umask(umask);
  folder.remove();
});
beforeEach(() => {
  made += 1;
  backup = join(folder.path, `backup-${made}`);
  cpSync(whole, backup, { recursive: true });
});

const dataDir = (): string => join(folder.path, `data-${made}`);
const restore = () => restoreBackup({ folder: backup, dataDir: dataDir() }, { onProgress: () => undefined });
const check = () => checkBackup(backup, { onProgress: () => undefined });
const findFile = (under: string, end: string): string => {
  const files = readdirSync(join(backup, under), { recursive: true, withFileTypes: true });
  const found = files.find((entry) => entry.isFile() && entry.name.endsWith(end));
  if (found === undefined) throw new Error(`no ${end} in ${under}`);
  return join(found.parentPath, found.name);
};
const pagesOf = (name: string): string => findFile(join('databases', name), '.pages');

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 0x40;
  writeFileSync(path, bytes);
}

/** The number of ready nodes in the restored folder. */
function countReady(): number {
  using rows = new Database(join(dataDir(), 'holdfast.db'));
  const found = rows
    .query<{ count: number }, []>('SELECT count(*) AS count FROM nodes WHERE state = 1')
    .get();
  return found?.count ?? 0;
}

/** The offset of the first page of a table or index in the file of pages, written by one backup in page order. */
function findPage(name: string, type: string): number {
  using rows = new Database(join(world.dataDir, 'holdfast.db'), { readonly: true });
  const found = rows
    .query<{ pageno: number; pgsize: number }, [string, string]>(
      'SELECT pageno, pgsize FROM dbstat WHERE name = ? AND pagetype = ? LIMIT 1',
    )
    .get(name, type);
  if (found === null) throw new Error('no such page');
  return (found.pageno - 1) * found.pgsize;
}

const DAMAGES: Readonly<Record<string, (path: string) => void>> = {
  gone: (path) => rmSync(path),
  cut: (path) => writeFileSync(path, readFileSync(path).subarray(0, 20)),
  'one bit wrong': (path) => flip(path, 9),
};
const LISTS = {
  'list of pages': () => findFile('databases/holdfast.db', '.map'),
  'copy of the list of pages': () => findFile('lists', 'holdfast.db.1.map'),
  'list of Apps’ pages': () => findFile('databases/registry.db', '.map'),
  'list of objects': () => findFile('lists', '.objects'),
};

for (const [list, find] of Object.entries(LISTS)) {
  test.each(Object.keys(DAMAGES))(`with its ${list} %s everything is restored`, async (kind) => {
    DAMAGES[kind]?.(find());
    const { damagedNodes, damagedFiles } = await restore();
    expect(damagedNodes).toEqual([]);
    expect(damagedFiles.length).toBe(list.startsWith('copy') ? 0 : 1);
    expect(countReady()).toBe(SMALL + OBJECTS);
  });
}

test('without any list everything is restored', async () => {
  rmSync(findFile('databases/holdfast.db', '.map'));
  rmSync(join(backup, 'lists'), { recursive: true });
  expect((await restore()).damagedNodes).toEqual([]);
  expect(countReady()).toBe(SMALL + OBJECTS);
});

test('an object that is gone, cut, wrong, a link or a pipe costs its node alone, which is named', async () => {
  const files = readdirSync(join(backup, 'objects'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const hashOf = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');
  const hashes = files.map(hashOf);
  const [gone, wrong, link, pipe] = files as [string, string, string, string];
  rmSync(gone);
  flip(wrong, 1000);
  renameSync(link, join(folder.path, 'elsewhere'));
  symlinkSync(join(folder.path, 'elsewhere'), link);
  rmSync(pipe);
  Bun.spawnSync(['mkfifo', pipe]);
  const verdict = await check();
  expect(verdict.damagedNodes.map(({ hash }) => hash).toSorted()).toEqual(hashes.toSorted() as never[]);
  const { damagedNodes, damagedFiles } = await restore();
  expect(damagedNodes.map(({ hash }) => hash).toSorted()).toEqual(hashes.toSorted() as never[]);
  expect(damagedFiles.length).toBe(3);
  expect(countReady()).toBe(SMALL);
});

test('a page of contents that is wrong costs the nodes on it alone, which are named', async () => {
  const [victim] = small as [CanonicalNode];
  const pages = readFileSync(pagesOf('holdfast.db'));
  flip(pagesOf('holdfast.db'), pages.indexOf(Buffer.from(victim.content)) + 2);
  const { damagedNodes, damagedFiles } = await restore();
  expect(damagedNodes.map(({ hash }) => hash)).toEqual([victim.hash]);
  expect(damagedFiles.length).toBe(1);
  expect(countReady()).toBe(SMALL + OBJECTS - 1);
});

const PLACES: readonly (readonly [string, string, string])[] = [
  ['holdfast.db', 'sqlite_schema', 'internal'],
  ['holdfast.db', 'nodes', 'internal'],
  ['holdfast.db', 'nodes', 'leaf'],
  ['holdfast.db', 'contents', 'internal'],
  ['holdfast.db', 'nodes_by_lease', 'leaf'],
  ['holdfast.db', 'store', 'leaf'],
  ['holdfast.db', 'spaces', 'leaf'],
  ['holdfast.db', 'domains', 'leaf'],
];
test.each(PLACES)('a byte of %s, %s (%s) costs no node', async (database, name, type) => {
  const page = findPage(name, type);
  // The number of cells; on the first page, the page size.
  flip(pagesOf(database), page === 0 ? 16 : page + 3);
  const { damagedNodes, damagedFiles } = await restore();
  expect(damagedNodes).toEqual([]);
  expect(damagedFiles.length).toBeGreaterThan(0);
  expect(countReady()).toBe(SMALL + OBJECTS);
});

test('rows that were damaged before the backup are named, and cost nothing', async () => {
  await restore();
  using rows = new Database(join(dataDir(), 'holdfast.db'));
  rows.run('UPDATE balances SET balance = balance + 4');
  rows.run(`UPDATE domains SET history_floor = history_floor + ${2n ** 61n}`);
  rows.close();
  backup = `${backup}-of-damage`;
  await makeBackup({ dataDir: dataDir(), folder: backup }, { onProgress: () => undefined });
  const named = [
    expect.stringMatching(/row of domains .*one wrong bit in history_floor$/),
    expect.stringMatching(/row of balances .*one wrong bit in balance: check --repair/),
  ];
  expect(await check()).toMatchObject({ ok: false, damagedNodes: [], damagedFiles: named });
  made += 1;
  expect(await restore()).toMatchObject({ damagedNodes: [], damagedFiles: named });
  expect(countReady()).toBe(SMALL + OBJECTS);
  using restored = new Database(join(dataDir(), 'holdfast.db'));
  const raised = 2 * REVISION_STEP + 1;
  const numbers = restored.query('SELECT revision, history_floor FROM domains').all();
  expect(numbers).toEqual([{ revision: raised, history_floor: raised }]);
});

test('rows on a page that is gone are named by their hashes, and the others restored', async () => {
  const page = findPage('nodes', 'leaf');
  const bytes = readFileSync(pagesOf('holdfast.db'));
  bytes.fill(0, page, page + 4096);
  writeFileSync(pagesOf('holdfast.db'), bytes);
  const { damagedNodes } = await restore();
  expect(damagedNodes.length).toBeWithin(1, SMALL / 2);
  const known = new Set([...small, ...objects].map(({ hash }) => hash));
  for (const { hash } of damagedNodes) expect(known.has(hash)).toBe(true);
});

/** Nothing outside the two folders may change, whatever the backup contains. */
const outside = join(folder.path, 'outside');
const OUTSIDE_TEXT = '#!/bin/sh\n';
function layOutside(): void {
  mkdirSync(join(outside, 'sub'), { recursive: true });
  for (const name of ['file', '1.objects', '9.pages', 'sub/9.map'])
    writeFileSync(join(outside, name), OUTSIDE_TEXT);
  chmodSync(join(outside, 'file'), 0o700);
}
const listOutside = (): string[] =>
  readdirSync(outside, { recursive: true, withFileTypes: true })
    .map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return `${path} ${entry.isFile() ? readFileSync(path, 'utf8') : ''}`;
    })
    .toSorted();

/** The outcome of each command; the only permitted failure is a ServeError. */
async function runAll(): Promise<string[]> {
  const again = () => makeBackup({ dataDir: world.dataDir, folder: backup }, { onProgress: () => undefined });
  const outcomes: string[] = [];
  for (const work of [check, restore, again]) {
    try {
      await work();
      outcomes.push('done');
    } catch (error) {
      expect((error as Error).name).toMatch(/^(ServeError|NotOurs)$/);
      outcomes.push((error as Error).message);
    }
  }
  return outcomes;
}

const FOLDERS = ['lists', 'databases', 'databases/holdfast.db', 'objects', 'objects/07', 'incoming'];
test.each(FOLDERS)('a link to another folder in the place of %s leads nowhere', async (name) => {
  layOutside();
  const before = listOutside();
  rmSync(join(backup, name), { recursive: true, force: true });
  symlinkSync(outside, join(backup, name));
  const outcomes = await runAll();
  expect(listOutside()).toEqual(before);
  // An interrupted backup's drafts are removed, including a link there.
  if (name === 'incoming') expect(outcomes).toEqual(['done', 'done', 'done']);
  else expect(outcomes[2]).toContain(`${join(backup, name)} is no folder but a link`);
});

const FILES = [
  ...['BACKUP', 'BACKUP.former', 'BACKUP.new', 'BACKUP.former.new', 'UNFINISHED', 'lock.db'],
  ...['lists/1.objects', 'lists/2.objects', 'lists/holdfast.db.2.map', 'databases/holdfast.db/1.pages'],
  ...['databases/holdfast.db/1.map', 'databases/holdfast.db/2.map', 'databases/registry.db/2.map'],
];
const PLANTS: readonly ((path: string) => void)[] = [
  (path) => symlinkSync(join(outside, 'file'), path),
  (path) => void Bun.spawnSync(['mkfifo', path]),
];
test.each(FILES.map((name, index) => [name, PLANTS[index % 2]] as const))(
  'a link or a pipe in the place of %s is refused, and nobody waits',
  async (name, plant) => {
    layOutside();
    const before = listOutside();
    rmSync(join(backup, name), { recursive: true, force: true });
    plant?.(join(backup, name));
    await runAll();
    expect(listOutside()).toEqual(before);
  },
);

test('a manifest is believed only in its one form', async () => {
  layOutside();
  const before = listOutside();
  const { manifest } = JSON.parse(readFileSync(join(backup, 'BACKUP'), 'utf8'));
  const [rows, apps] = manifest.databases;
  const changes: object[] = [
    ...['../../outside/file', '..', '.', '', '/etc/passwd', 'lock.db', 'holdfast.db/', 7, null].map(
      (name) => ({
        databases: [{ ...rows, name }, apps],
      }),
    ),
    ...[-1, 0.5, 1e300, '1', null, 3, 0].map((pageBytes) => ({ databases: [{ ...rows, pageBytes }] })),
    ...[-1, 2 ** 40, '1', '../1'].map((sequence) => ({
      databases: [{ ...rows, map: { ...rows.map, sequence } }],
    })),
    ...[[], [apps], [rows, rows], {}, null].map((databases) => ({ databases })),
    ...[1e300, -1, '\u001b[31m'].map((createdAt) => ({ createdAt })),
    ...['\u001b]0;x\u0007', '../x', 1].map((deployment) => ({ deployment })),
    ...['zz', '', 1].map((seed) => ({ seed })),
    ...[{}, [], { ...manifest.objects, list: { sequence: '../../x', sha256: '' } }].map((found) => ({
      objects: found,
    })),
    ...['1', -1, '\u001b[2J'].map((format) => ({ format })),
    { other: 1 },
  ];
  for (const change of changes) {
    const changed = { ...manifest, ...change };
    const sha256 = createHash('sha256').update(JSON.stringify(changed)).digest('hex');
    writeFileSync(join(backup, 'BACKUP'), JSON.stringify({ manifest: changed, sha256 }));
    for (const outcome of await runAll()) {
      expect(outcome).toContain('is damaged');
      expect(outcome).toContain(`mv ${backup}/BACKUP.former ${backup}/BACKUP`);
    }
  }
  expect(listOutside()).toEqual(before);
  expect(existsSync(dataDir())).toBe(false);
});

test('the former backup is taken as the message about a damaged one says', async () => {
  const late = objectNode(400);
  await world.publish(late);
  await makeBackup({ dataDir: world.dataDir, folder: backup }, { onProgress: () => undefined });
  flip(join(backup, 'BACKUP'), 40);
  const message = await restore().catch((error: Error) => error.message);
  const [, words = ''] = /run (mv \S+ \S+) and then/.exec(message as string) ?? [];
  expect(Bun.spawnSync(words.split(' ')).exitCode).toBe(0);
  expect(await restore()).toMatchObject({ nodes: SMALL + OBJECTS, damagedNodes: [], damagedFiles: [] });
  expect(countReady()).toBe(SMALL + OBJECTS);
});

test('neither a backup nor a data folder is made inside a backup or a data folder, and a backup is no data folder', async () => {
  const [served, link] = [join(folder.path, 'served'), join(folder.path, 'link')];
  holdDataFolder(served).release();
  writeFileSync(join(served, 'secret.key'), '');
  symlinkSync(served, link);
  const onProgress = (): void => undefined;
  const namesIn = () => [backup, served].map((each) => readdirSync(each).sort());
  const stood = namesIn();
  const refusal = async (act: () => unknown): Promise<string> =>
    String(await Promise.resolve().then(act).catch(String));
  for (const [outer, kind] of [
    [backup, 'the backup'],
    [served, 'the data folder'],
    [link, 'the data folder'],
  ] as const) {
    const inner = join(outer, 'a', 'inner');
    const told = `${inner} is inside ${kind} `;
    expect(await refusal(() => restoreBackup({ folder: whole, dataDir: inner }, { onProgress }))).toContain(
      told,
    );
    expect(
      await refusal(() => makeBackup({ dataDir: world.dataDir, folder: inner }, { onProgress })),
    ).toContain(told);
    expect(await refusal(() => holdDataFolder(inner))).toContain(told);
    expect(await refusal(() => tryDataFolder(inner))).toContain(told);
  }
  const empty = join(served, 'empty');
  mkdirSync(empty);
  for (const act of [tryDataFolder, holdDataFolder]) {
    expect(await refusal(() => act(empty))).toContain(`${empty} is inside the data folder `);
  }
  rmdirSync(empty);
  // Who copied the backup may have left the lock out.
  const copy = join(folder.path, 'copy');
  cpSync(whole, copy, { recursive: true });
  rmSync(join(copy, 'lock.db'));
  const dataDir = join(copy, 'inner');
  expect(await refusal(() => restoreBackup({ folder: copy, dataDir }, { onProgress }))).toContain(
    `${dataDir} is inside the backup ${copy}`,
  );
  expect(existsSync(dataDir)).toBe(false);
  expect(() => holdDataFolder(backup)).toThrow(/holds a backup and is no data folder/);
  expect(() => tryDataFolder(backup)).toThrow(/holds a backup and is no data folder/);
  expect(namesIn()).toEqual(stood);
});
