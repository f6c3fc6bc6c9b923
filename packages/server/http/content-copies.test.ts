/** Copies of large content: one for all readers of an object, bounded, and gone with its last reader. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { readdirSync, readlinkSync, statfsSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { MIB_BYTES } from '@holdfast/protocol';
import { seededBytes } from '../../../test/support/canonical-node.ts';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { until } from '../../../test/support/until.ts';
import { CONTENT_PIECE_BYTES, type ReadAids } from '../core/ports.ts';
import type { CopySource } from '../core/read/content-caller.ts';
import { FairShares, type Hold } from '../shares/fair-shares.ts';
import { ContentCopies, type CopyWatch } from './content-copies.ts';
import { ContentCopy, type CopyPlace, PlaceFailed } from './content-copy.ts';

const OFFSET = 26;
const NO_FOLDER = '/nowhere';
const watch = (signal = new AbortController().signal): CopyWatch => ({
  space: { appId: 'app', spaceId: 'space' },
  signal,
  onProgress: () => undefined,
});

let folder: ReturnType<typeof makeTempFolder>;
let copies: ContentCopies;
let sources = 0;
const cleanups: (() => unknown)[] = [];

async function openCopies(
  bytesMax?: number,
  path = folder.path,
  memoryFolder = NO_FOLDER,
): Promise<ContentCopies> {
  copies = await ContentCopies.open(path, { ...(bytesMax && { bytesMax }), memoryFolder });
  cleanups.push(() => copies.close());
  return copies;
}

beforeEach(() => {
  folder = makeTempFolder('copies');
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  folder.remove();
});

/** Canonical bytes with a header, of a generation of their own; `reads` are the pieces that were asked for. */
function makeSource(bytes: number) {
  sources += 1;
  const canonical = new Uint8Array(Buffer.alloc(OFFSET + bytes, seededBytes(99_991, sources)));
  const reads: number[] = [];
  const source: CopySource = {
    generation: `generation ${sources}`,
    offset: OFFSET,
    size: bytes,
    getVersion: async () => 'as it was stored',
    fillsScratch: false,
    async read(start, end) {
      expect(end - start).toBeLessThanOrEqual(CONTENT_PIECE_BYTES);
      reads.push(start);
      await Bun.sleep(0);
      return canonical.slice(start, end);
    },
  };
  return { source, reads, content: canonical.subarray(OFFSET) };
}

/** Descriptors of this process that lead into `path`, one for each opening. */
function openingsIn(path: string): number {
  let count = 0;
  for (const name of readdirSync('/proc/self/fd')) {
    try {
      if (readlinkSync(`/proc/self/fd/${name}`).startsWith(path)) count += 1;
    } catch {
      // Closed since it was listed.
    }
  }
  return count;
}

describe('one copy of an object', () => {
  test('gives the exact bytes of any range, reads each piece once, and has no path', async () => {
    await openCopies();
    const { source, reads, content } = makeSource(7 * MIB_BYTES + 12_345);
    const ranges = [
      [5, 10],
      [2 * MIB_BYTES - 30, 2 * MIB_BYTES + 30],
      [3 * MIB_BYTES, 7 * MIB_BYTES],
      [0, content.length],
      [content.length - 1, content.length],
    ] as const;
    for (const [start, end] of ranges) {
      const blob = await copies.take(source, start, end, watch());
      expect(blob.size).toBe(end - start);
      expect(Buffer.compare(await blob.bytes(), content.subarray(start, end))).toBe(0);
    }
    expect(reads.toSorted((a, b) => a - b)).toEqual([0, 2, 4, 6].map((mib) => OFFSET + mib * MIB_BYTES));
    expect(copies.heldBytes).toBe(content.length);
    expect(await readdir(folder.path)).toEqual([]);
  });

  test('has pieces begin with the content where each is a request, and where memory is filled with the object', async () => {
    await openCopies();
    for (const fillsScratch of [false, true]) {
      const { source, reads, content } = makeSource(4 * MIB_BYTES);
      const blob = await copies.take({ ...source, fillsScratch }, 0, 4 * MIB_BYTES, watch());
      expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
      const expected = fillsScratch
        ? [OFFSET, 2 * MIB_BYTES, 4 * MIB_BYTES]
        : [OFFSET, OFFSET + 2 * MIB_BYTES];
      expect(reads.toSorted((a, b) => a - b)).toEqual(expected);
    }
  });

  test('lends memory to a store that fills it, and none to another', async () => {
    await openCopies();
    for (const fillsScratch of [false, true]) {
      const { source } = makeSource(4 * MIB_BYTES);
      const lent = new Set<number | undefined>();
      const read = (start: number, end: number, aids: ReadAids): Promise<Uint8Array> => {
        lent.add(aids.scratch?.length);
        return source.read(start, end, aids);
      };
      await copies.take({ ...source, fillsScratch, read }, 0, 4 * MIB_BYTES, watch());
      expect([...lent]).toEqual([fillsScratch ? CONTENT_PIECE_BYTES : undefined]);
    }
  });

  test('serves any number of distinct ranges at once', async () => {
    await openCopies();
    const { source, reads, content } = makeSource(8 * MIB_BYTES);
    const taken = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        copies.take(source, index * 1000, 6 * MIB_BYTES + index, watch()),
      ),
    );
    for (const [index, blob] of taken.entries()) {
      const expected = content.subarray(index * 1000, 6 * MIB_BYTES + index);
      expect(Buffer.compare(await blob.bytes(), expected)).toBe(0);
    }
    expect(reads.length).toBe(4);
    expect(copies.heldBytes).toBeLessThanOrEqual(8 * MIB_BYTES);
  });

  test('takes no more than the pieces that a range touches', async () => {
    await openCopies();
    const { source, reads } = makeSource(60 * MIB_BYTES);
    await copies.take(source, 31 * MIB_BYTES, 31 * MIB_BYTES + 100, watch());
    expect(reads).toEqual([OFFSET + 30 * MIB_BYTES]);
    expect(copies.heldBytes).toBe(2 * MIB_BYTES);
  });

  test('is made anew if the stored bytes may have changed, and readers of the old one are not disturbed', async () => {
    await openCopies();
    const { source, reads, content } = makeSource(3 * MIB_BYTES);
    const before = await copies.take(source, 0, 3 * MIB_BYTES, watch());
    const changed = { ...source, getVersion: async () => 'another' };
    for (let count = 0; count < 2; count += 1) await copies.take(changed, 0, 3 * MIB_BYTES, watch());
    expect(reads.length).toBe(4);
    expect(Buffer.compare(await before.bytes(), content)).toBe(0);
    const lost = { ...source, getVersion: () => Promise.reject(new Error('lost')) };
    await expect(copies.take(lost, 0, 3 * MIB_BYTES, watch())).rejects.toThrow('lost');
  });

  test('a piece that fails is an error for all who wait for it, and is read anew for the next reader', async () => {
    await openCopies();
    const { source, content } = makeSource(5 * MIB_BYTES);
    let fails = true;
    const failing = {
      ...source,
      read: (start: number, end: number, aids: ReadAids) =>
        fails && start === OFFSET + 2 * MIB_BYTES
          ? Promise.reject(new Error('gone'))
          : source.read(start, end, aids),
    };
    const both = await Promise.allSettled([
      copies.take(failing, 0, 5 * MIB_BYTES, watch()),
      copies.take(failing, 2 * MIB_BYTES, 4 * MIB_BYTES, watch()),
    ]);
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    fails = false;
    const blob = await copies.take(failing, 0, 5 * MIB_BYTES, watch());
    expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
  });
});

describe('readers that stall', () => {
  /** Our server, and connections that send requests and do not read. */
  async function stall(source: CopySource, count: number): Promise<Socket[]> {
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch(request) {
        return new Response(await copies.take(source, 0, source.size, watch(request.signal)));
      },
    });
    cleanups.push(() => server.stop(true));
    const sockets = Array.from({ length: count }, () => {
      const socket = connect(server.port as number, '127.0.0.1', () => {
        socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      });
      socket.pause();
      cleanups.push(() => socket.destroy());
      return socket;
    });
    return sockets;
  }

  test('48 of one node of 32 MiB hold one copy, counted until the last has left', async () => {
    await openCopies(40 * MIB_BYTES);
    const { source, reads, content } = makeSource(32 * MIB_BYTES);
    const sockets = await stall(source, 48);
    await until(() => openingsIn(folder.path) === 49);
    expect(copies.heldBytes).toBe(32 * MIB_BYTES);
    expect(reads.length).toBe(16);
    const other = makeSource(16 * MIB_BYTES).source;
    // Long enough for a copy without readers to be released.
    await Bun.sleep(600);
    const refusal = copies.take(other, 0, other.size, watch());
    await expect(refusal).rejects.toMatchObject({ status: 429, retryAfterSeconds: 1 });
    for (const socket of sockets.slice(1)) socket.destroy();
    await until(() => openingsIn(folder.path) === 2);
    await Bun.sleep(600);
    await expect(copies.take(other, 0, other.size, watch())).rejects.toMatchObject({ status: 429 });
    let received = 0;
    const [last] = sockets as [Socket];
    last.on('data', (piece) => {
      received += piece.length;
    });
    last.resume();
    await until(() => received > content.length);
    await until(() => openingsIn(folder.path) === 1);
    await until(() =>
      copies.take(other, 0, other.size, watch()).then(
        () => true,
        () => false,
      ),
    );
    expect(copies.heldBytes).toBe(16 * MIB_BYTES);
  }, 300_000);

  test('of one Space leave room for another Space', async () => {
    await openCopies(64 * MIB_BYTES);
    for (let count = 0; count < 2; count += 1) await stall(makeSource(16 * MIB_BYTES).source, 1);
    await until(() => openingsIn(folder.path) === 4);
    const more = makeSource(16 * MIB_BYTES).source;
    await expect(copies.take(more, 0, more.size, watch())).rejects.toMatchObject({ status: 429 });
    const space = { appId: 'honest', spaceId: 'space' };
    expect((await copies.take(more, 0, more.size, { ...watch(), space })).size).toBe(16 * MIB_BYTES);
  }, 300_000);
});

describe('a disk', () => {
  test('is never filled beyond the space that copies must leave free', async () => {
    const disk = mountSmallDisk(40);
    cleanups.push(() => disk.remove());
    await openCopies(undefined, join(disk.path, 'copies'));
    const [first, second] = [makeSource(14 * MIB_BYTES).source, makeSource(14 * MIB_BYTES).source];
    await copies.take(first, 0, first.size, watch());
    await expect(copies.take(second, 0, second.size, watch())).rejects.toMatchObject({ status: 503 });
    await Bun.write(join(disk.path, 'of another tenant'), new Uint8Array(14 * MIB_BYTES));
    expect(copies.heldBytes).toBe(14 * MIB_BYTES);
  });

  test('that is full makes copies stay in memory', async () => {
    const disk = mountSmallDisk(8);
    cleanups.push(() => disk.remove());
    const memory = makeTempFolder('memory', { fast: true });
    cleanups.push(() => memory.remove());
    await openCopies(undefined, join(disk.path, 'copies'), memory.path);
    disk.fill(0);
    const { source, content } = makeSource(8 * MIB_BYTES);
    const blob = await copies.take(source, 0, source.size, watch());
    expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
    expect(await readdir(memory.path)).toEqual([]);
  });
});

test('a folder of copies that was removed is made again', async () => {
  const path = join(folder.path, 'swept');
  await openCopies(undefined, path);
  await rm(path, { recursive: true });
  const { source, content } = makeSource(3 * MIB_BYTES);
  const blob = await copies.take(source, 0, source.size, watch());
  expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
});

test('a copy that cannot have its size leaves nothing open', () => {
  const shares = new FairShares({ resource: 'test', capacity: 20 * MIB_BYTES });
  const counts = { processes: 1, heldBytes: 0, writtenBytes: 0 };
  const place: CopyPlace = { folder: folder.path, shares, keptFreeBytes: () => 0, ...counts };
  const source = { ...makeSource(MIB_BYTES).source, size: Number.NaN };
  const before = readdirSync('/proc/self/fd').length;
  for (let copy = 0; copy < 20; copy += 1) {
    const hold = shares.tryAcquire('app', 'space', MIB_BYTES) as Hold;
    expect(() => new ContentCopy(place, source, 'a version', hold)).toThrow(PlaceFailed);
  }
  expect(shares.used).toBe(0);
  expect(readdirSync('/proc/self/fd').length).toBeLessThan(before + 10);
  expect(readdirSync(folder.path)).toEqual([]);
});

test('processes that share a disk together leave its space free', async () => {
  const { bavail, bsize } = statfsSync(folder.path);
  copies = await ContentCopies.open(folder.path, {
    bytesMax: 8 * MIB_BYTES,
    memoryFolder: NO_FOLDER,
    processes: 4,
  });
  cleanups.push(() => copies.close());
  expect(bavail * bsize).toBeGreaterThan(64 * MIB_BYTES);
  const { source } = makeSource(3 * MIB_BYTES);
  await expect(copies.take(source, 0, source.size, watch())).rejects.toMatchObject({ status: 429 });
  expect((await copies.take(source, 0, MIB_BYTES, watch())).size).toBe(MIB_BYTES);
});

test('a start removes copies of an earlier process, and a caller who leaves ends the reading', async () => {
  await Bun.write(join(folder.path, 'of an earlier life'), 'x');
  await openCopies();
  expect(await readdir(folder.path)).toEqual([]);
  const { source, reads } = makeSource(60 * MIB_BYTES);
  const gone = new AbortController();
  const taking = copies.take(source, 0, source.size, {
    ...watch(gone.signal),
    onProgress: () => gone.abort(),
  });
  await expect(taking).rejects.toThrow('went away');
  expect(reads.length).toBeLessThan(10);
});

test('a caller who leaves ends the reading, unless another caller waits for it', async () => {
  await openCopies();
  const { source, content } = makeSource(4 * MIB_BYTES);
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
  const taking = callers.map(({ signal }) => copies.take(slow, 0, source.size, watch(signal)));
  const outcomes = Promise.allSettled(taking);
  const reading = await under.promise;
  callers[0].abort();
  await expect(taking[0]).rejects.toThrow('went away');
  expect(reading.aborted).toBe(false);
  callers[1].abort();
  await outcomes;
  expect(reading.aborted).toBe(true);
  // The next caller does not wait for the abandoned read.
  const next = copies.take(source, 0, source.size, watch());
  expect(Buffer.compare(await (await next).bytes(), content)).toBe(0);
  door.resolve();
});

test('memory holds few pieces at once for any number of answers', async () => {
  await openCopies();
  let reading = 0;
  let most = 0;
  const taking = Array.from({ length: 20 }, () => {
    const { source } = makeSource(10 * MIB_BYTES);
    const read = async (start: number, end: number, aids: ReadAids): Promise<Uint8Array> => {
      reading += 1;
      most = Math.max(most, reading);
      await Bun.sleep(1);
      reading -= 1;
      return source.read(start, end, aids);
    };
    return copies.take({ ...source, read }, 0, source.size, watch());
  });
  await Promise.all(taking);
  expect(most).toBe(32);
});
