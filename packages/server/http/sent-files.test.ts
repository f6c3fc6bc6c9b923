/** The files that large answers are sent from: one for all readers of an object, bounded, and gone with its last reader. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { readdirSync, statfsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { until } from '../../../test/support/until.ts';
import type { ReadAids } from '../core/object-file.ts';
import { makePrivateCopy } from './private-copy.ts';
import { SentFiles } from './sent-files.ts';
import { PlaceFailed } from './sent-place.ts';
import {
  MIB,
  makeSource,
  NO_FOLDER,
  OFFSET,
  openingsIn,
  SentWorld,
  watch,
} from './test/sent-files-fixture.ts';

const PATH_BYTES_MAX = 4096;

let world: SentWorld;
beforeEach(() => {
  world = new SentWorld();
});
afterEach(() => world.close());

describe('one copy of an object', () => {
  test('gives the exact bytes of any range, reads each piece once, and has no path', async () => {
    await world.open();
    const { source, reads, content } = makeSource(7 * MIB + 12_345);
    const ranges = [
      [5, 10],
      [2 * MIB - 30, 2 * MIB + 30],
      [3 * MIB, 7 * MIB],
      [0, content.length],
      [content.length - 1, content.length],
    ] as const;
    for (const [start, end] of ranges) {
      const blob = await world.files.take(source, start, end, watch());
      expect(blob.size).toBe(end - start);
      expect(Buffer.compare(await blob.bytes(), content.subarray(start, end))).toBe(0);
    }
    expect(reads.toSorted((a, b) => a - b)).toEqual([OFFSET, 2 * MIB, 4 * MIB, 6 * MIB]);
    expect(world.files.heldBytes).toBe(content.length);
    expect(await readdir(world.copyFolder)).toEqual([]);
  });

  test('serves any number of distinct ranges at once', async () => {
    await world.open();
    const { source, reads, content } = makeSource(8 * MIB);
    const taken = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        world.files.take(source, index * 1000, 6 * MIB + index, watch()),
      ),
    );
    for (const [index, blob] of taken.entries()) {
      const expected = content.subarray(index * 1000, 6 * MIB + index);
      expect(Buffer.compare(await blob.bytes(), expected)).toBe(0);
    }
    expect(reads.length).toBe(4);
    expect(world.files.heldBytes).toBeLessThanOrEqual(8 * MIB);
  });

  test('takes no more than the pieces that a range touches', async () => {
    await world.open();
    const { source, reads } = makeSource(60 * MIB);
    await world.files.take(source, 31 * MIB, 31 * MIB + 100, watch());
    expect(reads).toEqual([30 * MIB]);
    expect(world.files.heldBytes).toBe(2 * MIB);
  });

  test('is made anew if the stored bytes may have changed, and readers of the old one are not disturbed', async () => {
    await world.open();
    const { source, reads, content } = makeSource(3 * MIB);
    const before = await world.files.take(source, 0, 3 * MIB, watch());
    const changed = { ...source, getVersion: async () => 'another' };
    for (let count = 0; count < 2; count += 1) await world.files.take(changed, 0, 3 * MIB, watch());
    expect(reads.length).toBe(4);
    expect(Buffer.compare(await before.bytes(), content)).toBe(0);
    const lost = { ...source, getVersion: () => Promise.reject(new Error('lost')) };
    await expect(world.files.take(lost, 0, 3 * MIB, watch())).rejects.toThrow('lost');
  });

  test('a piece that fails is an error for all who wait for it, and is read anew for the next reader', async () => {
    await world.open();
    const { source, content } = makeSource(5 * MIB);
    let fails = true;
    const failing = {
      ...source,
      read: (start: number, end: number, aids: ReadAids) =>
        fails && start === 2 * MIB ? Promise.reject(new Error('gone')) : source.read(start, end, aids),
    };
    const both = await Promise.allSettled([
      world.files.take(failing, 0, 5 * MIB, watch()),
      world.files.take(failing, 2 * MIB, 4 * MIB, watch()),
    ]);
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    fails = false;
    const blob = await world.files.take(failing, 0, 5 * MIB, watch());
    expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
  });
});

describe('readers that stall', () => {
  test('48 of one node of 32 MiB hold one copy, counted until the last has left', async () => {
    await world.open(40 * MIB);
    const { source, reads, content } = makeSource(32 * MIB);
    const sockets = await world.stall(source, 48);
    await until(() => openingsIn(world.copyFolder) === 49);
    expect(world.files.heldBytes).toBe(32 * MIB);
    expect(reads.length).toBe(17);
    const other = makeSource(16 * MIB).source;
    // Long enough for a copy without readers to be released.
    await Bun.sleep(600);
    const refusal = world.files.take(other, 0, other.size, watch());
    await expect(refusal).rejects.toMatchObject({ status: 429, retryAfterSeconds: 1 });
    for (const socket of sockets.slice(1)) socket.destroy();
    await until(() => openingsIn(world.copyFolder) === 2);
    await Bun.sleep(600);
    await expect(world.files.take(other, 0, other.size, watch())).rejects.toMatchObject({ status: 429 });
    let received = 0;
    const [last] = sockets as [Socket];
    last.on('data', (piece) => {
      received += piece.length;
    });
    last.resume();
    await until(() => received > content.length);
    await until(() => openingsIn(world.copyFolder) === 1);
    await until(() =>
      world.files.take(other, 0, other.size, watch()).then(
        () => true,
        () => false,
      ),
    );
    expect(world.files.heldBytes).toBe(16 * MIB);
  }, 60_000);

  test('of one Space leave room for another Space', async () => {
    await world.open(64 * MIB);
    for (let count = 0; count < 2; count += 1) await world.stall(makeSource(16 * MIB).source, 1);
    await until(() => openingsIn(world.copyFolder) === 4);
    const more = makeSource(16 * MIB).source;
    await expect(world.files.take(more, 0, more.size, watch())).rejects.toMatchObject({ status: 429 });
    const space = { appId: 'honest', spaceId: 'space' };
    expect((await world.files.take(more, 0, more.size, { ...watch(), space })).size).toBe(16 * MIB);
  }, 60_000);
});

describe('a disk', () => {
  test('is never filled beyond the space that copies must leave free', async () => {
    const disk = mountSmallDisk(40);
    world.cleanups.push(() => disk.remove());
    await world.open(undefined, join(disk.path, 'copies'));
    const [first, second] = [makeSource(14 * MIB).source, makeSource(14 * MIB).source];
    await world.files.take(first, 0, first.size, watch());
    await expect(world.files.take(second, 0, second.size, watch())).rejects.toMatchObject({ status: 503 });
    await Bun.write(join(disk.path, 'of another tenant'), new Uint8Array(14 * MIB));
    expect(world.files.heldBytes).toBe(14 * MIB);
  });

  test('that is full makes copies stay in memory', async () => {
    const disk = mountSmallDisk(8);
    world.cleanups.push(() => disk.remove());
    const memory = makeTempFolder('memory', { fast: true });
    world.cleanups.push(() => memory.remove());
    await world.open(undefined, join(disk.path, 'copies'), memory.path);
    disk.fill(0);
    const { source, content } = makeSource(8 * MIB);
    const blob = await world.files.take(source, 0, source.size, watch());
    expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
    expect(await readdir(memory.path)).toEqual([]);
  });
});

test('a folder of copies that was removed is made again', async () => {
  const path = join(world.folder.path, 'swept');
  await world.open(undefined, path);
  await rm(path, { recursive: true });
  const { source, content } = makeSource(3 * MIB);
  const blob = await world.files.take(source, 0, source.size, watch());
  expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
});

test('a copy that cannot have its size leaves nothing open', () => {
  const before = readdirSync('/proc/self/fd').length;
  for (let copy = 0; copy < 20; copy += 1) {
    expect(() => makePrivateCopy(world.folder.path, Number.NaN)).toThrow(PlaceFailed);
  }
  expect(readdirSync('/proc/self/fd').length).toBeLessThan(before + 10);
  expect(readdirSync(world.folder.path)).toEqual([]);
});

test('a copy that cannot be made gives its share back', async () => {
  // No name fits below so long a path.
  let path = world.folder.path;
  while (path.length < PATH_BYTES_MAX - 40) {
    path = join(path, 'x'.repeat(Math.min(200, PATH_BYTES_MAX - 30 - path.length)));
  }
  await world.open(20 * MIB, path);
  const { source } = makeSource(8 * MIB);
  for (let copy = 0; copy < 20; copy += 1) {
    const taking = world.files.take(source, 0, source.size, watch());
    await expect(taking).rejects.toMatchObject({ code: 'ENAMETOOLONG' });
  }
});

test('processes that share a disk together leave its space free', async () => {
  const { bavail, bsize } = statfsSync(world.folder.path);
  const files = await SentFiles.open(world.folder.path, {
    bytesMax: 8 * MIB,
    memoryFolder: NO_FOLDER,
    processes: 4,
  });
  world.cleanups.push(() => files.close());
  expect(bavail * bsize).toBeGreaterThan(64 * MIB);
  const { source } = makeSource(3 * MIB);
  await expect(files.take(source, 0, source.size, watch())).rejects.toMatchObject({ status: 429 });
  expect((await files.take(source, 0, MIB, watch())).size).toBe(MIB);
});

test('a start removes copies of an earlier process, and a caller who leaves ends the reading', async () => {
  await Bun.write(join(world.copyFolder, 'of an earlier life'), 'x');
  await world.open();
  expect(await readdir(world.copyFolder)).toEqual([]);
  const { source, reads } = makeSource(60 * MIB);
  const gone = new AbortController();
  const taking = world.files.take(source, 0, source.size, {
    ...watch(gone.signal),
    onProgress: () => gone.abort(),
  });
  await expect(taking).rejects.toThrow('went away');
  expect(reads.length).toBeLessThan(10);
});

test('a caller who leaves ends the reading, unless another caller waits for it', async () => {
  await world.open();
  const { source, content } = makeSource(4 * MIB);
  const under = Promise.withResolvers<AbortSignal>();
  const door = Promise.withResolvers<void>();
  const read = async (start: number, end: number, aids: ReadAids): Promise<Uint8Array> => {
    under.resolve(aids.signal as AbortSignal);
    await door.promise;
    aids.signal?.throwIfAborted();
    return source.read(start, end, aids);
  };
  const slow = { ...source, read };
  const callers = [new AbortController(), new AbortController()] as const;
  const taking = callers.map(({ signal }) => world.files.take(slow, 0, source.size, watch(signal)));
  const outcomes = Promise.allSettled(taking);
  const reading = await under.promise;
  callers[0].abort();
  await expect(taking[0]).rejects.toThrow('went away');
  expect(reading.aborted).toBe(false);
  callers[1].abort();
  await outcomes;
  expect(reading.aborted).toBe(true);
  // The next caller does not wait for the abandoned reading.
  const next = world.files.take(source, 0, source.size, watch());
  expect(Buffer.compare(await (await next).bytes(), content)).toBe(0);
  door.resolve();
});

test('memory holds few pieces at once for any number of answers', async () => {
  await world.open();
  let reading = 0;
  let most = 0;
  const taking = Array.from({ length: 20 }, () => {
    const { source } = makeSource(10 * MIB);
    const read = async (start: number, end: number, aids: ReadAids): Promise<Uint8Array> => {
      reading += 1;
      most = Math.max(most, reading);
      await Bun.sleep(1);
      reading -= 1;
      return source.read(start, end, aids);
    };
    return world.files.take({ ...source, read }, 0, source.size, watch());
  });
  await Promise.all(taking);
  expect(most).toBe(32);
});
