/** The walk over strays of the content folder, beside names that are not ours and folders that fail. */

import { afterEach, expect, test } from 'bun:test';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HOUR_MS } from '@holdfast/protocol';
import type { Generation } from '../../core/model.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { STRAY_AGE_MS } from '../../core/stray-watch.ts';
import type { FindKnown } from '../../core/upkeep-ports.ts';
import { NOW, newGeneration } from '../test/samples.ts';
import { diskFiles, type Files } from './files.ts';
import { type ContentWorld, openContentStore } from './test/content-store-fixture.ts';

/** The first instant at which an object made at NOW is old. */
const OLD_AT = NOW + STRAY_AGE_MS;
/** steps of one walk over folders that hold few objects */
const STEPS = 16;

let world: ContentWorld;
afterEach(() => world.destroy());

const failure = (): Error => Object.assign(new Error('injected'), { code: 'EIO' });
const none: FindKnown = () => new Set();
const madeAt = (at: number): Generation => at.toString(16).padStart(12, '0') + newGeneration().slice(12);

async function open(overrides: Partial<Files> = {}): Promise<void> {
  world = await openContentStore(overrides);
}

const inFolder = (folder: string, generation = newGeneration()): Generation =>
  generation.slice(0, 28) + generation.slice(-2) + folder;

async function leave(names: readonly string[], folderOf = (name: string) => name.slice(-2)): Promise<void> {
  for (const name of names) await writeFile(join(world.layout.objects, folderOf(name), name), 'bytes');
}

async function walk(findKnown: FindKnown, now = OLD_AT, steps = STEPS): Promise<void> {
  for (let step = 0; step < steps; step += 1) await world.store.sweep(findKnown, now);
}

const left = async (): Promise<string[]> => {
  const entries = await readdir(world.layout.objects, { recursive: true, withFileTypes: true });
  return entries.flatMap((entry) => (entry.isFile() ? entry.name : [])).sort();
};

test('only old objects without a record are deleted, and no file with another kind of name', async () => {
  await open();
  const strays = Array.from({ length: 7 }, newGeneration);
  const known = Array.from({ length: 4 }, newGeneration);
  const young = [madeAt(NOW + 1), madeAt(OLD_AT)];
  const foreign = [
    'README',
    `${newGeneration()}.kept`,
    newGeneration().slice(1),
    'X'.repeat(32),
    inFolder('ab'),
  ];
  const kept = [...known, ...young, ...foreign].sort();
  await leave([...strays, ...known, ...young]);
  await leave(foreign, () => 'aa');
  const asked: Generation[] = [];
  await walk((keys) => {
    asked.push(...keys.map(({ generation }) => generation));
    return new Set(known);
  });
  expect(await left()).toEqual(kept);
  expect(asked.sort()).toEqual([...strays, ...known].sort());
  expect(world.fatal).toEqual([]);
});

test('an object becomes old to the millisecond, and the next walk begins an hour after the last', async () => {
  await open();
  const generation = newGeneration();
  await leave([generation]);
  await walk(none, OLD_AT - 1);
  expect(await left()).toEqual([generation]);
  await walk(none, OLD_AT - 1 + HOUR_MS - 1);
  expect(await left()).toEqual([generation]);
  await walk(none, OLD_AT - 1 + HOUR_MS);
  expect(await left()).toEqual([]);
});

test('a step looks up few records, however many objects a folder has', async () => {
  await open();
  const generations = Array.from({ length: 600 }, (_, index) => inFolder('00', madeAt(NOW - 256 * index)));
  await leave(generations);
  const asked: number[] = [];
  await walk(({ length }) => {
    asked.push(length);
    return new Set();
  });
  expect(asked.filter((count) => count > 0)).toEqual([256, 256, 88]);
  expect(await left()).toEqual([]);
});

test('records are looked up after the listing, so that a record made in between counts', async () => {
  let known: ReadonlySet<Generation> = new Set();
  const generation = newGeneration();
  await open({
    async list(path) {
      const names = await diskFiles.list(path);
      if (names.includes(generation)) known = new Set([generation]);
      return names;
    },
  });
  await leave([generation]);
  await walk(() => known);
  expect(await left()).toEqual([generation]);
});

test('an object that cannot be removed, or a folder that cannot be listed, delays no other', async () => {
  const [stuck, stray] = [inFolder('00'), inFolder('00')];
  const hidden = inFolder('03');
  let isBroken = true;
  await open({
    remove: (path) => (isBroken && path.endsWith(stuck) ? Promise.reject(failure()) : diskFiles.remove(path)),
    list: (path) =>
      isBroken && path.endsWith('objects/03') ? Promise.reject(failure()) : diskFiles.list(path),
  });
  await leave([stuck, stray, hidden]);
  const failures: unknown[] = [];
  for (let step = 0; step < STEPS + 2; step += 1) {
    await world.store.sweep(none, OLD_AT).catch((error: unknown) => failures.push(error));
  }
  expect(failures).toEqual([expect.any(StoreUnavailable), expect.any(StoreUnavailable)]);
  expect(await left()).toEqual([stuck, hidden].sort());
  isBroken = false;
  await walk(none, OLD_AT + HOUR_MS);
  expect(await left()).toEqual([]);
});

test('records that cannot be read delete nothing, and the same objects are looked at again', async () => {
  await open();
  const generation = inFolder('00');
  await leave([generation]);
  const sweeping = world.store.sweep(() => Promise.reject(new StoreUnavailable('no rows')), OLD_AT);
  expect(await sweeping.catch((error: unknown) => error)).toBeInstanceOf(StoreUnavailable);
  expect(await left()).toEqual([generation]);
  await walk(none);
  expect(await left()).toEqual([]);
});

test('in the folder of another deployment, or without its marker, nothing is deleted', async () => {
  await open();
  const generation = inFolder('00');
  await leave([generation]);
  await writeFile(world.layout.marker, 'another-store');
  await expect(world.store.sweep(none, OLD_AT)).rejects.toThrow(/is not the store these rows belong to/);
  await rm(world.layout.marker);
  await expect(world.store.sweep(none, OLD_AT)).rejects.toThrow(/is not the store these rows belong to/);
  expect(await left()).toEqual([generation]);
});

test('a walk that another process goes on with begins where it was left, and a finished one begins anew', async () => {
  const listed: string[] = [];
  await open({
    list: (path) => {
      if (world.layout.shards().includes(path)) listed.push(path);
      return diskFiles.list(path);
    },
  });
  const noted: (string | undefined)[] = [];
  const keeper = {
    findKept: none,
    readPlace: () => noted.at(-1),
    notePlace: async (place: string | undefined) => void noted.push(place),
  };
  const step = async (): Promise<void> => {
    const store = world.reopen();
    await store.sweep(none, OLD_AT, keeper);
    await store.close();
  };
  await step();
  while (noted.at(-1) !== undefined) await step();
  const once = [...listed];
  expect(new Set(once).size).toBe(once.length);
  expect(once.length).toBe(world.layout.shards().length);
  await step();
  expect(listed.slice(once.length)).toEqual(once.slice(0, listed.length - once.length));
});
