/** Disks that are full or broken, or fail late: nothing acknowledged is lost, nothing is left over, and the store works on. */
import { afterEach, describe, expect, test } from 'bun:test';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Generation } from '../../core/model.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { diskFiles, type Files, type OpenFile, type OpenFolder } from '../../engine/disk/files.ts';
import { type ContentWorld, openContentStore } from '../../engine/disk/test/content-store-fixture.ts';
import { NOW, newGeneration, SPACE, sampleNode } from '../../engine/test/samples.ts';
import { receiverOf } from './embedded-engine-fixture.ts';

const LIMITS = { nodeBytesMax: 64 * 1024 * 1024 };
const { hash, node } = sampleNode(900_000, 1);

function failure(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code });
}

/** A disk whose files fail in one operation while `isBroken` says so. */
function faultyFiles(
  operation: keyof OpenFile,
  code: string,
  isBroken: () => boolean,
): Pick<Files, 'create' | 'openToRead'> {
  const wrap = (file: OpenFile): OpenFile =>
    new Proxy(file, {
      get(target, name) {
        if (name === operation && isBroken()) return () => Promise.reject(failure(code));
        if (name === `${operation}Now` && isBroken()) {
          return () => {
            throw failure(code);
          };
        }
        const value = Reflect.get(target, name) as unknown;
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  return {
    create: async (path) => wrap(await diskFiles.create(path)),
    openToRead: async (path) => wrap(await diskFiles.openToRead(path)),
  };
}

/** Folders that are opened as they are, and made durable by `sync`. */
function foldersThat(sync: (folder: OpenFolder) => Promise<void>): Files['openFolder'] {
  return async (path) => {
    const folder = await diskFiles.openFolder(path);
    return { sync: () => sync(folder), closeNow: () => folder.closeNow() };
  };
}

describe('a failing disk', () => {
  let world: ContentWorld;
  let isBroken = false;
  afterEach(() => world.destroy());

  const receive = (generation = newGeneration()) =>
    receiverOf(world.store).receive({ space: SPACE, generation, hash }, node, node.length, LIMITS);

  test.each(['ENOSPC', 'EIO', 'EDQUOT'])(
    '%s while writing: refused, nothing left, later uploads work',
    async (code) => {
      world = await openContentStore(faultyFiles('write', code, () => isBroken));
      const generation = newGeneration();
      isBroken = true;
      await expect(receive(generation)).rejects.toBeInstanceOf(StoreUnavailable);
      expect(receiverOf(world.store).isReceiving(generation)).toBe(false);
      expect(receiverOf(world.store).reservedBytes(SPACE)).toBe(0);
      expect(await readdir(world.layout.incoming)).toEqual([]);
      isBroken = false;
      const staged = await receive(generation);
      expect(await staged.seal()).toBe(true);
      world.finish(generation);
      await staged.release();
      expect(world.fatal).toEqual([]);
    },
  );

  test('a failed fsync of a file is fatal and seals nothing', async () => {
    world = await openContentStore(faultyFiles('sync', 'EIO', () => true));
    const generation = newGeneration();
    const staged = await receive(generation);
    await expect(staged.seal()).rejects.toBeInstanceOf(StoreUnavailable);
    await staged.release();
    expect(world.fatal).toHaveLength(1);
    expect(await world.store.inspect(SPACE, generation, hash, LIMITS)).toEqual({ found: false });
  });

  test('a failed fsync of a folder is fatal', async () => {
    world = await openContentStore({
      openFolder: foldersThat(() => Promise.reject(failure('EIO'))),
    });
    const staged = await receive();
    await expect(staged.seal()).rejects.toBeInstanceOf(StoreUnavailable);
    await staged.release();
    expect(world.fatal).toHaveLength(1);
  });

  test('a failed fsync of a folder at a deletion is fatal too: a repetition would find no name to remove', async () => {
    isBroken = false;
    world = await openContentStore({
      openFolder: foldersThat((folder) => (isBroken ? Promise.reject(failure('EIO')) : folder.sync())),
    });
    const [deleted, undone] = [newGeneration(), newGeneration()];
    await world.put(deleted, node);
    await world.put(undone, node);
    world.finish(deleted);
    isBroken = true;
    expect((await world.store.delete(SPACE, [deleted])).deleted.size).toBe(0);
    expect(world.fatal).toHaveLength(1);
    // An upload that nobody recorded is undone by the sweep, which deletes its object.
    await expect(world.store.sweep(() => new Set(), NOW)).rejects.toBeInstanceOf(StoreUnavailable);
    expect(world.fatal).toHaveLength(2);
  });

  test('a folder that cannot be opened now keeps the object, so that its deletion can be repeated', async () => {
    isBroken = false;
    let syncs = 0;
    world = await openContentStore({
      async openFolder(path) {
        if (isBroken) throw failure('EMFILE');
        const folder = await diskFiles.openFolder(path);
        return {
          closeNow: () => folder.closeNow(),
          sync() {
            syncs += 1;
            return folder.sync();
          },
        };
      },
    });
    const generation = newGeneration();
    await world.put(generation, node);
    world.finish(generation);
    isBroken = true;
    expect((await world.store.delete(SPACE, [generation])).failure).toBeInstanceOf(StoreUnavailable);
    expect((await world.store.inspect(SPACE, generation, hash, LIMITS)).found).toBe(true);
    isBroken = false;
    syncs = 0;
    for (const expected of [1, 2]) {
      expect((await world.store.delete(SPACE, [generation])).deleted.size).toBe(1);
      // The second time too: the process that removed the name may have ended before it was durable.
      expect(syncs).toBe(expected);
    }
    expect(world.fatal).toEqual([]);
  });

  test('a staged file that cannot be removed ends the upload all the same, and is found later', async () => {
    isBroken = true;
    world = await openContentStore({
      remove: (path) =>
        isBroken && path.includes('incoming') ? Promise.reject(failure('EIO')) : diskFiles.remove(path),
    });
    const receiver = receiverOf(world.store);
    const target = { space: SPACE, generation: newGeneration(), hash };
    const half = node.subarray(0, node.length / 2);
    const broken = await receiver.receive(target, half, node.length, LIMITS).catch((error: Error) => error);
    expect((broken as Error).message).toContain('broke off');
    expect([receiver.isReceiving(target.generation), receiver.reservedBytes(SPACE)]).toEqual([false, 0]);
    // The verdict counts even if the file cannot be removed.
    const wrong = await receiver.receive(target, node.with(30, 1), node.length, LIMITS);
    expect(wrong.evidence).toMatchObject({ verdict: 'bad' });
    await wrong.release();
    expect(receiver.isReceiving(target.generation)).toBe(false);
    expect(await readdir(world.layout.incoming)).toHaveLength(2);
    await expect(world.store.sweep(() => new Set(), NOW)).rejects.toBeInstanceOf(StoreUnavailable);
    isBroken = false;
    await world.store.sweep(() => new Set(), NOW);
    expect(await readdir(world.layout.incoming)).toEqual([]);
  });

  test('leftovers that cannot be removed delay no other, even if there are more than one sweep takes', async () => {
    isBroken = true;
    const stuck = newGeneration();
    world = await openContentStore({
      remove: (path) =>
        isBroken && path.includes(`incoming/${stuck}`)
          ? Promise.reject(failure('EIO'))
          : diskFiles.remove(path),
    });
    const leave = (generation: Generation) =>
      writeFile(join(world.layout.incoming, `${generation}.${2 ** 30}-abcdef.1`), 'half a node');
    await leave(stuck);
    for (let index = 0; index < 300; index += 1) await leave(newGeneration());
    for (let sweeps = 0; sweeps < 4; sweeps += 1) {
      await world.store.sweep(() => new Set(), NOW).catch(() => undefined);
    }
    expect((await readdir(world.layout.incoming)).map((name) => name.slice(0, 32))).toEqual([stuck]);
    isBroken = false;
    await world.store.sweep(() => new Set(), NOW);
    expect(await readdir(world.layout.incoming)).toEqual([]);
  });

  test.each(['EMFILE', 'ENFILE', 'EACCES'])('%s on the way to a name changes nothing', async (code) => {
    isBroken = true;
    world = await openContentStore({
      openFolder: (path) => (isBroken ? Promise.reject(failure(code)) : diskFiles.openFolder(path)),
    });
    const generation = newGeneration();
    const staged = await receive(generation);
    await expect(staged.seal()).rejects.toBeInstanceOf(StoreUnavailable);
    await staged.release();
    expect(world.fatal).toEqual([]);
    expect(await world.store.inspect(SPACE, generation, hash, LIMITS)).toEqual({ found: false });
    isBroken = false;
    await world.put(generation, node);
    world.finish(generation);
    expect((await world.store.inspect(SPACE, generation, hash, LIMITS)).found).toBe(true);
  });

  test.each(['EIO', 'EMFILE', 'EACCES'])('%s while reading proves nothing', async (code) => {
    world = await openContentStore(faultyFiles('read', code, () => isBroken));
    isBroken = false;
    const generation = newGeneration();
    await world.put(generation, node);
    world.finish(generation);
    const inspected = await world.store.inspect(SPACE, generation, hash, LIMITS);
    if (!inspected.found || inspected.evidence.verdict !== 'good') throw new Error('turned down');
    const { integrity } = inspected.evidence;
    const object = { space: SPACE, generation, canonicalSize: node.length, integrity };
    isBroken = true;
    const opening = world.store.read(object, 0, 10);
    expect(await opening.catch((error) => error)).toBeInstanceOf(StoreUnavailable);
    const verifying = world.store.verify(object, hash);
    expect(await verifying.catch((error) => error)).toBeInstanceOf(StoreUnavailable);
    isBroken = false;
    await world.store.verify(object, hash);
  });

  test('a marker that cannot be read is not taken for the marker of another store', async () => {
    isBroken = false;
    world = await openContentStore({
      readText: (path) => (isBroken ? Promise.reject(failure('EMFILE')) : diskFiles.readText(path)),
    });
    isBroken = true;
    const absence = world.store.inspect(SPACE, newGeneration(), hash, LIMITS);
    expect(await absence.catch((error) => error)).toMatchObject({
      name: 'StoreUnavailable',
      message: expect.stringContaining('too many open files'),
    });
  });

  test('one bad read of good bytes is read again and served', async () => {
    let badReads = 0;
    const spoil = (file: OpenFile): OpenFile => ({
      sizeNow: () => file.sizeNow(),
      write: (buffer, position) => file.write(buffer, position),
      sync: () => file.sync(),
      close: () => file.close(),
      closeNow: () => file.closeNow(),
      async read(buffer, position) {
        const length = await file.read(buffer, position);
        if (badReads-- > 0) buffer[0] = (buffer[0] as number) ^ 1;
        return length;
      },
    });
    world = await openContentStore({ openToRead: async (path) => spoil(await diskFiles.openToRead(path)) });
    const generation = newGeneration();
    await world.put(generation, node);
    const inspected = await world.store.inspect(SPACE, generation, hash, LIMITS);
    if (!inspected.found || inspected.evidence.verdict !== 'good') throw new Error('turned down');
    const { integrity } = inspected.evidence;
    const object = { space: SPACE, generation, canonicalSize: node.length, integrity };
    badReads = 1;
    expect(await world.store.read(object, 0, 10)).toEqual(node.slice(0, 10));
    badReads = 2;
    await expect(world.store.read(object, 0, 10)).rejects.toThrow();
  });

  test('an acknowledged object is on disk first: its bytes before its name, its name before the answer', async () => {
    const steps: string[] = [];
    const note = <Args extends unknown[], Result>(step: string, run: (...args: Args) => Result) => {
      return (...args: Args): Result => {
        steps.push(step);
        return run(...args);
      };
    };
    world = await openContentStore({
      link: note('link', diskFiles.link),
      openFolder: foldersThat(note('sync folder', (folder: OpenFolder) => folder.sync())),
      syncFolder: note('sync folder', diskFiles.syncFolder),
      remove: note('remove', diskFiles.remove),
      async create(path) {
        const file = await diskFiles.create(path);
        const write = note('write', (buffer: Uint8Array, position: number) => file.write(buffer, position));
        const sync = note('sync file', () => file.sync());
        const ends = { close: () => file.close(), closeNow: () => file.closeNow() };
        return Object.assign(Object.create(file) as OpenFile, { write, sync, ...ends });
      },
    });
    const generation = newGeneration();
    const staged = await receive(generation);
    await staged.seal();
    expect(steps.filter((step, index) => step !== steps[index - 1])).toEqual([
      'write',
      'sync file',
      'link',
      'sync folder',
    ]);
    world.finish(generation);
    await staged.release();
    steps.length = 0;
    await world.store.delete(SPACE, [generation]);
    expect(steps).toEqual(['remove', 'sync folder']);
  });

  test('a deletion that fails is reported beside those that succeed, delays no other, and can be repeated', async () => {
    const generations = Array.from({ length: 40 }, () => newGeneration());
    const stuck = generations[3]!;
    let isBroken = false;
    world = await openContentStore({
      remove: async (path) => {
        if (isBroken && path.includes('objects') && path.endsWith(stuck)) throw failure('EIO');
        await diskFiles.remove(path);
      },
    });
    for (const generation of generations) await world.put(generation, node);
    isBroken = true;
    const first = await world.store.delete(SPACE, generations);
    expect(first.failure).toBeInstanceOf(StoreUnavailable);
    expect(first.deleted.has(stuck)).toBe(false);
    expect(first.deleted.size).toBe(generations.length - 1);
    for (const generation of generations) {
      const { found } = await world.store.inspect(SPACE, generation, hash, LIMITS);
      expect(found).toBe(!first.deleted.has(generation));
    }
    isBroken = false;
    const second = await world.store.delete(SPACE, generations);
    expect([second.deleted.size, second.failure]).toEqual([generations.length, undefined]);
    expect((await world.store.inspect(SPACE, stuck, hash, LIMITS)).found).toBe(false);
  });

  test('64 uploads at once hold one block each, not their nodes', async () => {
    world = await openContentStore();
    const large = sampleNode(4 * 1024 * 1024, 9);
    const before = process.memoryUsage().rss;
    const staged = await Promise.all(
      Array.from({ length: 64 }, (_, index) => {
        const generation = newGeneration();
        return receiverOf(world.store).receive(
          { space: SPACE, generation, hash: large.hash },
          trickle(large.node, 64 * 1024, index),
          large.node.length,
          LIMITS,
        );
      }),
    );
    const grown = process.memoryUsage().rss - before;
    for (const one of staged) await one.release();
    expect(grown).toBeLessThan(128 * 1024 * 1024);
  });
});

/** The same bytes, a piece at a time, each in a buffer of its own as a socket gives them. */
function trickle(bytes: Uint8Array, size: number, delay: number): ReadableStream<Uint8Array> {
  let position = 0;
  return new ReadableStream(
    {
      async pull(controller) {
        if (position === 0) await Bun.sleep(delay);
        if (position >= bytes.length) return controller.close();
        controller.enqueue(bytes.slice(position, position + size));
        position += size;
      },
    },
    { highWaterMark: 0 },
  );
}
