/** Copies of large content in preallocated memory: exact, bounded, never reused, and freed. */

import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { MIB_BYTES } from '@holdfast/protocol';
import { seededBytes } from '../../../test/support/canonical-node.ts';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { until } from '../../../test/support/until.ts';
import type { ReadAids } from '../core/ports.ts';
import type { CopySource } from '../core/read/content-caller.ts';
import { SpareFiles } from '../runtime/spare-files.ts';
import { ContentCopies, type CopyWatch } from './content-copies.ts';

const BLOCK_BYTES = 256 * 1024;
const cleanups: (() => unknown)[] = [];
let disk: ReturnType<typeof makeTempFolder>;
let memory: ReturnType<typeof makeTempFolder>;
let sources = 0;

beforeEach(() => {
  disk = makeTempFolder('copies');
  memory = makeTempFolder('spare-files', { fast: true });
  cleanups.push(disk.remove, memory.remove);
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function openCopies(memoryFolder = memory.path): Promise<ContentCopies> {
  const copies = await ContentCopies.open(disk.path, { memoryFolder });
  cleanups.push(() => copies.close());
  return copies;
}

const watch = (signal = new AbortController().signal): CopyWatch => ({
  space: { appId: 'app', spaceId: 'space' },
  signal,
  onProgress: () => undefined,
});

/** Reads as a store on disk does: whole blocks, into the memory that it is given. */
function makeSource(bytes: number, offset = 26) {
  sources += 1;
  const canonical = new Uint8Array(Buffer.alloc(offset + bytes, seededBytes(99_991, sources)));
  const source: CopySource = {
    generation: `generation ${sources}`,
    offset,
    size: bytes,
    getVersion: async () => 'as it was stored',
    fillsScratch: true,
    async read(start, end, { scratch }: ReadAids) {
      const from = start - (start % BLOCK_BYTES);
      await Bun.sleep(0);
      scratch?.set(canonical.subarray(from, end));
      return (scratch as Uint8Array).subarray(start - from, end - from);
    },
  };
  return { source, content: canonical.subarray(offset) };
}

/** Unlinked files that this process has open in the folder. */
function filesIn(path: string): number {
  const files = readdirSync('/proc/self/fd').map((name) => {
    try {
      return readlinkSync(`/proc/self/fd/${name}`);
    } catch {
      return 'closed since it was listed';
    }
  });
  return new Set(files.filter((name) => name.startsWith(path))).size;
}

/** The first large read only shows that spare files are needed. */
async function openWithBlanks(bytes: number, folder = memory.path): Promise<ContentCopies> {
  const copies = await openCopies(folder);
  const { source } = makeSource(bytes);
  await copies.take(source, 0, bytes, watch());
  await until(() => filesIn(folder) === 2);
  return copies;
}

test.each([26, 700_000])(
  'any range of a copy in a spare is exact, its header %d bytes long',
  async (offset) => {
    const copies = await openWithBlanks(13 * MIB_BYTES);
    const { source, content } = makeSource(11 * MIB_BYTES + 12_345, offset);
    const onDisk = filesIn(disk.path);
    for (const [start, end] of [
      [MIB_BYTES, 10 * MIB_BYTES],
      [5, 10],
      [2 * MIB_BYTES - 30, 2 * MIB_BYTES + 30],
      [0, content.length],
      [content.length - 1, content.length],
    ] as const) {
      const blob = await copies.take(source, start, end, watch());
      expect(blob.size).toBe(end - start);
      expect(Buffer.compare(await blob.bytes(), content.subarray(start, end))).toBe(0);
    }
    expect(filesIn(disk.path)).toBe(onDisk);
    expect(readdirSync(memory.path)).toEqual([]);
  },
);

test('what a connection still holds stays as it was when the memory is long given back', async () => {
  const copies = await openWithBlanks(9 * MIB_BYTES);
  const { source, content } = makeSource(9 * MIB_BYTES);
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async () => new Response(await copies.take(source, 0, source.size, watch())),
  });
  cleanups.push(() => server.stop(true));
  const received: Uint8Array[] = [];
  let count = 0;
  let isStalled = false;
  const socket = connect(server.port as number, '127.0.0.1', () => {
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  });
  cleanups.push(() => socket.destroy());
  socket.on('data', (piece: Uint8Array) => {
    received.push(piece);
    count += piece.length;
    // The system holds the rest by now.
    if (count > 7.5 * MIB_BYTES && !isStalled) socket.pause();
    isStalled = count > 7.5 * MIB_BYTES;
  });
  await until(() => isStalled && filesIn(memory.path) === 3);
  await until(() => filesIn(memory.path) === 2);
  const others = Array.from({ length: 2 }, () => makeSource(9 * MIB_BYTES).source);
  for (const other of others) await copies.take(other, 0, other.size, watch());
  socket.resume();
  await until(() => count > content.length);
  const all = Buffer.concat(received);
  expect(Buffer.compare(all.subarray(all.indexOf('\r\n\r\n') + 4), content)).toBe(0);
}, 300_000);

test('a piece that is still being read when its caller leaves never reaches a later answer', async () => {
  const copies = await openWithBlanks(9 * MIB_BYTES);
  const { source, content } = makeSource(9 * MIB_BYTES);
  const door = Promise.withResolvers<void>();
  const reading = Promise.withResolvers<void>();
  let late = 0;
  const read: CopySource['read'] = async (start, end, aids) => {
    if (late === 0) {
      late += 1;
      reading.resolve();
      await door.promise;
      aids.scratch?.fill(7);
      late += 1;
      throw new Error('the disk failed late');
    }
    return source.read(start, end, aids);
  };
  const gone = new AbortController();
  const first = copies.take({ ...source, read }, 0, 9 * MIB_BYTES, watch(gone.signal));
  await reading.promise;
  gone.abort();
  await expect(first).rejects.toThrow('went away');
  const blob = await copies.take({ ...source, read }, 0, 9 * MIB_BYTES, watch());
  door.resolve();
  await until(() => late === 2);
  expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
});

test('a small range or content of moderate size takes no spare', async () => {
  const copies = await openWithBlanks(12 * MIB_BYTES);
  await copies.take(makeSource(12 * MIB_BYTES).source, 0, 3 * MIB_BYTES, watch());
  await copies.take(makeSource(7 * MIB_BYTES).source, 0, 7 * MIB_BYTES, watch());
  const read = async (start: number, end: number): Promise<Uint8Array> => new Uint8Array(end - start);
  await copies.take(
    { ...makeSource(12 * MIB_BYTES).source, read, fillsScratch: false },
    0,
    12 * MIB_BYTES,
    watch(),
  );
  expect(filesIn(memory.path)).toBe(2);
});

test('a file system in memory with little room keeps half of it free, and answers go on from disk', async () => {
  const small = mountSmallDisk(40);
  cleanups.push(() => small.remove());
  const copies = await openCopies(small.path);
  const first = makeSource(9 * MIB_BYTES);
  await copies.take(first.source, 0, 9 * MIB_BYTES, watch());
  await until(() => filesIn(small.path) > 0);
  small.fill(0);
  const others = Array.from({ length: 4 }, () => makeSource(9 * MIB_BYTES));
  for (const { source, content } of others) {
    const blob = await copies.take(source, 0, content.length, watch());
    expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
  }
  expect(filesIn(small.path)).toBeLessThanOrEqual(2);
});

test('spares are bounded, and given back when nothing large is read', async () => {
  const options = {
    folder: memory.path,
    copiedBytes: () => 0,
    hasRoom: () => true,
    isCopying: () => false,
    unwantedMsMax: 0,
  };
  const spares = new SpareFiles({ ...options, bytesMax: 20 * MIB_BYTES });
  await spares.replenish();
  expect(spares.readyBytes).toBe(0);
  expect(spares.take(21 * MIB_BYTES)).toBeUndefined();
  await spares.replenish();
  expect(spares.readyBytes).toBe(0);
  expect(spares.take(12 * MIB_BYTES)).toBeUndefined();
  await spares.replenish();
  expect(spares.readyBytes).toBe(12 * MIB_BYTES);
  spares.tidy();
  expect(spares.readyBytes).toBe(0);
  await until(() => filesIn(memory.path) === 0);
  const full = new SpareFiles({ ...options, bytesMax: 20 * MIB_BYTES, hasRoom: () => false });
  full.take(MIB_BYTES);
  await full.replenish();
  expect(full.readyBytes).toBe(0);
});
