/** Hashing files as the format's own builder does, whatever their size; changes while reading are noticed. */
import { afterAll, describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import {
  appendFileSync,
  constants,
  lstatSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import {
  CHUNK_BYTES_MAX,
  CHUNK_BYTES_MIN,
  chunkStream,
  FileBuilder,
  MemoryTree,
} from '@holdfast/client/internal';
import { FileBusyError, type HashedFile, hashFile as hashFileNow } from './hash-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-hash-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function randomBytes(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  return bytes;
}

async function buildHash(content: Uint8Array): Promise<string> {
  const builder = new FileBuilder(new MemoryTree());
  for await (const chunk of chunkStream([content])) await builder.add(chunk);
  return (await builder.finish()).hash;
}

const opener = (path: string) => (): number => openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
/** It throws or rejects, as the file is. */
const hashFile = async (...args: Parameters<typeof hashFileNow>): Promise<HashedFile> => hashFileNow(...args);
const UNHEARD = { onRead: () => undefined };

describe('hashFile', () => {
  test('never takes a pipe that came into the place of a file for an empty one', async () => {
    const path = join(folder, 'replaced');
    writeFileSync(path, 'a file');
    const stats = lstatSync(path);
    rmSync(path);
    Bun.spawnSync(['mkfifo', path]);
    const hashing = hashFile(opener(path), stats, UNHEARD);
    expect(await hashing.catch((error: Error) => error)).toMatchObject({
      name: 'FileBusyError',
      message: 'something else took its place while it was read: push again',
    });
  });

  const sizes = [
    0,
    1,
    16 * 1024,
    16 * 1024 + 1,
    CHUNK_BYTES_MIN,
    CHUNK_BYTES_MIN + 1,
    CHUNK_BYTES_MAX,
    CHUNK_BYTES_MAX + 1,
    30_000_000,
  ];

  test.each(sizes)('of %d random bytes', async (size) => {
    const content = randomBytes(size);
    const path = join(folder, `random-${size}`);
    writeFileSync(path, content);
    let read = 0;
    const hashed = await hashFile(opener(path), lstatSync(path), {
      onRead: (bytes) => {
        read += bytes;
      },
    });
    expect(hashed).toMatchObject({ hash: await buildHash(content), bytes: size });
    expect(read).toBe(hashed.indexNodes.length === 0 ? 0 : size);
  });

  test.each(sizes)('of %d bytes hands on nodes, whose bytes stay until they are taken', async (size) => {
    const content = randomBytes(size);
    const path = join(folder, `taken-${size}`);
    writeFileSync(path, content);
    let bytes = 0;
    const hashed = await hashFile(opener(path), lstatSync(path), {
      ...UNHEARD,
      takeNode: async (hash, canonical, taken) => {
        await setTimeout(Math.random() * 20);
        expect(createHash('sha256').update(canonical).digest('hex')).toBe(hash);
        bytes += taken.bytes;
      },
    });
    expect(hashed.hash).toBe(await buildHash(content));
    expect(bytes).toBe(size);
  });

  test('of a large file that cannot be read to its end rejects once, however long its chunks are being taken', async () => {
    const path = join(folder, 'unreadable');
    const content = randomBytes(20_000_000);
    writeFileSync(path, content);
    const unheard: unknown[] = [];
    const hear = (error: unknown): void => void unheard.push(error);
    process.on('unhandledRejection', hear);
    let reads = 0;
    const failing = async (
      _: number,
      room: Uint8Array,
      offset: number,
      length: number,
      position: number,
    ): Promise<{ readonly bytesRead: number }> => {
      reads += 1;
      if (reads === 6) throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' });
      room.set(content.subarray(position, position + length), offset);
      return { bytesRead: Math.min(length, content.length - position) };
    };
    try {
      const hashing = hashFile(opener(path), lstatSync(path), {
        ...UNHEARD,
        read: failing,
        takeNode: () => setTimeout(200),
      });
      await expect(hashing).rejects.toThrow('EIO');
      expect(unheard).toEqual([]);
    } finally {
      process.off('unhandledRejection', hear);
    }
  });

  test('reads one file after the other into the same memory, and hands it on there', async () => {
    const size = CHUNK_BYTES_MIN + 1;
    const memories = new Set<ArrayBufferLike>();
    for (const name of ['first', 'second', 'third']) {
      const path = join(folder, name);
      writeFileSync(path, randomBytes(size));
      await hashFile(opener(path), lstatSync(path), {
        ...UNHEARD,
        takeNode: async (_, canonical) => void memories.add(canonical.buffer),
      });
    }
    expect(memories.size).toBe(1);
  });

  test.each(sizes)('of %d equal bytes, which are only cut at the maximum', async (size) => {
    const content = new Uint8Array(size);
    const path = join(folder, `zero-${size}`);
    writeFileSync(path, content);
    expect((await hashFile(opener(path), lstatSync(path), UNHEARD)).hash).toBe(await buildHash(content));
  });

  test.each([100, 40_000, 9_000_000])(
    'of %d bytes that grow all the time takes what they were',
    async (size) => {
      const path = join(folder, `grown-${size}`);
      const content = randomBytes(size);
      writeFileSync(path, content);
      const before = lstatSync(path);
      let files = 0;
      const growing = (): number => {
        appendFileSync(path, 'more');
        return opener(path)();
      };
      const hashed = await hashFile(growing, before, {
        onRead: () => appendFileSync(path, 'more'),
        takeNode: (_hash, _canonical, counts) => {
          files += counts.files;
        },
      });
      expect(hashed).toMatchObject({ hash: await buildHash(content), bytes: size });
      expect(hashed.stats.size).toBeGreaterThan(size);
      expect(files).toBeLessThanOrEqual(1);
    },
  );

  test.each([100, 9_000_000])('of %d bytes that grow, and are written over too', async (size) => {
    const path = join(folder, `overwritten-${size}`);
    writeFileSync(path, randomBytes(size));
    const before = lstatSync(path);
    const changing = (): number => {
      const file = openSync(path, 'r+');
      writeSync(file, randomBytes(8), 0, 8, size / 2);
      appendFileSync(path, 'more');
      return file;
    };
    await expect(hashFile(changing, before, UNHEARD)).rejects.toThrow(FileBusyError);
  });

  test('lends the bytes of a file until they are taken, while other pushes read', async () => {
    const taken = Promise.withResolvers<void>();
    const lent: { readonly hash: string; readonly canonical: Uint8Array }[] = [];
    const takeNode = (hash: string, canonical: Uint8Array): Promise<void> => {
      lent.push({ hash, canonical });
      return taken.promise;
    };
    const sizes = [16 * 1024 + 1, 30_000, 30_000, 200_000, CHUNK_BYTES_MIN];
    const hashing = sizes.map(async (size, at) => {
      const path = join(folder, `lent-${at}`);
      writeFileSync(path, randomBytes(size));
      return hashFile(opener(path), lstatSync(path), { ...UNHEARD, takeNode });
    });
    for (const { hash, canonical } of lent) {
      expect(createHash('sha256').update(canonical).digest('hex')).toBe(hash);
    }
    taken.resolve();
    const hashed = await Promise.all(hashing);
    expect(lent.map(({ hash }) => hash)).toEqual(hashed.map(({ hash }) => hash));
  });

  test('of a file that never rests', async () => {
    const path = join(folder, 'restless');
    writeFileSync(path, randomBytes(9_000_000));
    let written = 0;
    const onRead = (): void => {
      writeFileSync(path, String(++written), { flag: 'r+' });
    };
    const hashing = hashFile(opener(path), lstatSync(path), { onRead });
    expect(await hashing.catch((error: unknown) => error)).toBeInstanceOf(FileBusyError);
  });

  test('of a file whose length the system makes up', async () => {
    const path = '/proc/self/status';
    const hashing = hashFile(opener(path), lstatSync(path), UNHEARD);
    const error = await hashing.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(FileBusyError);
    expect((error as Error).message).toStartWith('its length is not the 0 bytes that the system says');
  });
});
