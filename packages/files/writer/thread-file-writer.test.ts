/** Pulls whose small files another thread makes: the same bytes, the same refusals, and nothing left behind. */
import { afterAll, describe, expect, test } from 'bun:test';
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DirectoryBuilder, type DirectoryEntry, FileBuilder, MemoryTree } from '@holdfast/client';
import { directory, file, type Plan } from '../../../test/support/disk-trees.ts';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import type { FileWriter } from '../pull/file-writer.ts';
import { pullToPath } from '../pull/pull-to-path.ts';
import { type Placed, type SmallFile, writeSmallFile } from '../pull/small-file.ts';
import { folderOf } from '../pull/target-folder.ts';
import {
  failureOf,
  freshPaths,
  makeSource,
  PlanSource,
  readStanding,
  standingOf,
} from '../test/pull-fixture.ts';
import { createFileWriter, WAITING_FOLDERS_MAX } from './thread-file-writer.ts';

const folder = makeTempFolder('file-writer', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);

/** The writer, and how many files it took. */
function countTaken(writer: FileWriter): { writer: FileWriter; taken: () => number } {
  let count = 0;
  const take = (small: SmallFile, content: Uint8Array): Promise<Placed> | undefined => {
    const taken = writer.take(small, content);
    if (taken !== undefined) count += 1;
    return taken;
  };
  const takeUnproven: FileWriter['takeUnproven'] = (small, unproven) => {
    const taken = writer.takeUnproven(small, unproven);
    if (taken !== undefined) count += 1;
    return taken;
  };
  return {
    writer: {
      take,
      takeUnproven,
      expect: (files) => writer.expect(files),
      afterTaken: (held, work) => writer.afterTaken(held, work),
      close: () => writer.close(),
    },
    taken: () => count,
  };
}

/** `folders` folders of `each` files of up to 9 KB. */
function makeWide(folders: number, each: number): Plan {
  const name = (number: number): string => String(number).padStart(4, '0');
  const inside = (at: number): Plan =>
    directory(
      Object.fromEntries(
        Array.from({ length: each }, (_, index) => {
          const size = (at * each + index) % 9000;
          const plan = { ...file(size, at * each + index), isExecutable: index % 7 === 0 };
          return [`f${name(index)}`, plan as Plan];
        }),
      ),
    );
  return directory(
    Object.fromEntries(Array.from({ length: folders }, (_, at) => [`d${name(at)}`, inside(at)])),
  );
}

/** Writes nothing while anything comes. */
function makeLateWriter(): FileWriter {
  let jobs: (() => void)[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const writeAll = (): void => {
    const due = jobs;
    jobs = [];
    for (const job of due) job();
  };
  return {
    expect: () => undefined,
    takeUnproven: () => undefined,
    take(small, content) {
      const copy = new Uint8Array(content);
      clearTimeout(timer);
      timer = setTimeout(writeAll, 30);
      return new Promise((settle) => jobs.push(() => settle(writeSmallFile(small, copy))));
    },
    afterTaken: (_, work) => (jobs.length === 0 ? work() : void jobs.push(work)),
    close: async () => writeAll(),
  };
}

/** A folder `in` of 40 files, each with a time of its own. */
async function makeTimed() {
  const tree = new MemoryTree();
  const times = new Map<string, bigint>();
  const inside = new DirectoryBuilder(tree);
  for (let index = 0; index < 40; index += 1) {
    const builder = new FileBuilder(tree);
    await builder.add(Buffer.from(`file ${index}`));
    const name = `f${index + 10}`;
    const mtimeNs = BigInt(index * 86_400 - 1_000_000) * 1_000_000_000n + 123_456_789n;
    times.set(`in/${name}`, mtimeNs);
    await inside.add(entryOf(name, { ...(await builder.finish()), kind: 'file', entryCount: 0, mtimeNs }));
  }
  const outer = new DirectoryBuilder(tree);
  const mtimeNs = 1_700_000_000_000_000_001n;
  times.set('in', mtimeNs);
  await outer.add(entryOf('in', { ...(await inside.finish()), kind: 'directory', mtimeNs }));
  return { root: (await outer.finish()).hash, source: new PlanSource(tree), times };
}

function entryOf(name: string, rest: Omit<DirectoryEntry, 'name' | 'isExecutable'>): DirectoryEntry {
  return { ...rest, name: new TextEncoder().encode(name), isExecutable: false };
}

/** The descriptors of this process in or below `path`. */
function listOpenBelow(path: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((descriptor) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${descriptor}`);
      return target.startsWith(path) ? [target] : [];
    } catch {
      // The descriptor of the listing itself.
      return [];
    }
  });
}

describe('a pull with a thread', () => {
  test('of more folders than are held open brings every byte and mode', async () => {
    const plan = makeWide(300, 8);
    const { root, source } = await makeSource(plan);
    const target = fresh();
    const { writer, taken } = countTaken(createFileWriter({ filesBefore: 20 }));
    const result = await pullToPath(source, root, target, { writer });
    expect(result.writtenFiles).toBe(2400);
    expect(taken()).toBeGreaterThan(1000);
    expect(readStanding(target)).toEqual(standingOf(plan));
    // Every descriptor of a folder is closed again.
    expect(listOpenBelow(target)).toEqual([]);
  });

  test('sets times to the nanosecond, and folders last', async () => {
    const { root, source, times } = await makeTimed();
    const target = fresh();
    const { writer, taken } = countTaken(createFileWriter({ filesBefore: 0 }));
    await pullToPath(source, root, target, { writer });
    // The first tells whether names are given in one step here.
    expect(taken()).toBe(39);
    for (const [path, time] of times) {
      expect([path, statSync(join(target, path), { bigint: true }).mtimeNs]).toEqual([path, time]);
    }
  });

  test('never replaces what appears in the midst', async () => {
    const plan = directory({ a: makeWide(2, 30) });
    const { root, source } = await makeSource(plan);
    const target = fresh();
    let isPlanted = false;
    const writer = createFileWriter({ filesBefore: 0 });
    const watching: FileWriter = {
      ...countTaken(writer).writer,
      take(small, content) {
        if (Buffer.from(small.name).toString() === 'f0017' && !isPlanted) {
          isPlanted = true;
          writeFileSync(join(target, 'a', 'd0000', 'f0017'), 'somebody else');
        }
        return writer.take(small, content);
      },
    };
    const message = await failureOf(pullToPath(source, root, target, { writer: watching }), Error);
    expect(message).toContain('a/d0000/f0017 has appeared while pulling');
    expect(readFileSync(join(target, 'a', 'd0000', 'f0017'), 'utf8')).toBe('somebody else');
    expect(
      readdirSync(target, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.part')),
    ).toEqual([]);
    rmSync(join(target, 'a', 'd0000', 'f0017'));
    await pullToPath(source, root, target, { writer: createFileWriter({ filesBefore: 0 }) });
    expect(readStanding(target)).toEqual(standingOf(plan));
  });

  test('replaces files by force, though the thread never does', async () => {
    const plan = makeWide(1, 40);
    const { root, source } = await makeSource(plan);
    const target = fresh();
    await pullToPath(source, root, target);
    // One is missing, so that the first new file tells of the file system before the others are replaced.
    rmSync(join(target, 'd0000', 'f0000'));
    for (let index = 1; index < 40; index += 1) {
      writeFileSync(join(target, 'd0000', `f${String(index).padStart(4, '0')}`), 'other bytes');
    }
    await pullToPath(source, root, target, { writer: createFileWriter({ filesBefore: 0 }), force: true });
    expect(readStanding(target)).toEqual(standingOf(plan));
  });

  test('writes into the folder that it opened, wherever that was moved', async () => {
    const { root, source } = await makeSource(makeWide(1, 200));
    const target = fresh();
    const moved = fresh();
    const writer = createFileWriter({ filesBefore: 0 });
    let isMoved = false;
    const watching: FileWriter = {
      ...countTaken(writer).writer,
      take(small, content) {
        if (!isMoved) {
          isMoved = true;
          renameSync(join(target, 'd0000'), moved);
        }
        return writer.take(small, content);
      },
    };
    await pullToPath(source, root, target, { writer: watching });
    expect(readdirSync(moved)).toHaveLength(200);
    expect(readdirSync(target)).toEqual([]);
  });

  test('keeps folders open until their files are there, however late they are written', async () => {
    const plan = makeWide(400, 2);
    const { root, source } = await makeSource(plan);
    const target = fresh();
    // As many files at once as where nodes come in packs: their folders are more than are kept open.
    const many = Object.assign(source, { nodesAtOnce: 1024 });
    await pullToPath(many, root, target, { writer: makeLateWriter() });
    expect(readStanding(target)).toEqual(standingOf(plan));
    expect(listOpenBelow(target)).toEqual([]);
  });

  test('on a full disk says so, and goes on when there is room', async () => {
    const plan = makeWide(10, 60);
    const { root, source } = await makeSource(plan);
    const disk = mountSmallDisk(12);
    try {
      const target = join(disk.path, 'target');
      source.onRead = () => {
        if (source.reads.length > 200) disk.fill(100_000);
      };
      const failed = failureOf(
        pullToPath(source, root, target, { writer: createFileWriter({ filesBefore: 0 }) }),
        Error,
      );
      expect(await failed).toContain('the disk is full; free some space');
      source.onRead = () => undefined;
      disk.empty();
      await pullToPath(source, root, target, { writer: createFileWriter({ filesBefore: 0 }) });
      expect(readStanding(target)).toEqual(standingOf(plan));
    } finally {
      disk.remove();
    }
  });
});

describe('a pull whose thread', () => {
  /** A thread that does as the text says. */
  function makeEntry(text: string): URL {
    const path = `${fresh()}.ts`;
    writeFileSync(path, text);
    return pathToFileURL(path);
  }

  test('cannot be started makes its files itself', async () => {
    const plan = makeWide(2, 60);
    const { root, source } = await makeSource(plan);
    for (const entry of [pathToFileURL(fresh()), makeEntry('throw new Error("no memory")')]) {
      const target = fresh();
      const warnings: string[] = [];
      const warn = (message: string): void => void warnings.push(message);
      const { writer, taken } = countTaken(createFileWriter({ filesBefore: 0, entry, warn }));
      await pullToPath(source, root, target, { writer });
      expect(warnings).toEqual([expect.stringContaining('no thread could be started')]);
      expect(taken()).toBeGreaterThan(0);
      expect(readStanding(target)).toEqual(standingOf(plan));
      expect(listOpenBelow(target)).toEqual([]);
    }
  });

  test('ends in the midst says so, closes what it held, and goes on with the next', async () => {
    const plan = makeWide(2, 60);
    const { root, source } = await makeSource(plan);
    const target = fresh();
    const dying = makeEntry(`
      import { parentPort } from 'node:worker_threads';
      parentPort.on('message', () => process.exit(3));
      parentPort.postMessage('ready');
    `);
    const message = await failureOf(
      pullToPath(source, root, target, { writer: createFileWriter({ filesBefore: 0, entry: dying }) }),
    );
    expect(message).toContain('cannot be written: the thread that makes files failed: it has ended');
    expect(listOpenBelow(target)).toEqual([]);
    await pullToPath(source, root, target, { writer: createFileWriter({ filesBefore: 0 }) });
    expect(readStanding(target)).toEqual(standingOf(plan));
  });
});

describe('the writer', () => {
  function smallFile(descriptor: number, name: string): SmallFile {
    const rest = { isExecutable: false, mtimeNs: undefined, fsync: true };
    return { folder: folderOf(descriptor), partialName: `${name}.part`, name: Buffer.from(name), ...rest };
  }

  test('does what waits for its files only when they are there, and ends when all are', async () => {
    const at = fresh();
    const { writer, close } = openWriter(at);
    const order: string[] = [];
    const taken = Array.from({ length: 300 }, (_, index) =>
      writer.writer
        .take(smallFile(writer.descriptor, `n${index}`), Buffer.from(`${index}`))
        ?.then((placed) => order.push(placed)),
    );
    expect(taken.filter((each) => each === undefined)).toEqual([]);
    writer.writer.afterTaken(writer.descriptor, () => order.push(`${readdirSync(at).length} there`));
    expect(order).toEqual([]);
    await close();
    expect(readdirSync(at)).toHaveLength(300);
    await Promise.all(taken);
    expect(order.filter((each) => each === 'exclusive')).toHaveLength(300);
    expect(order).toContain('300 there');
    writer.writer.afterTaken(writer.descriptor, () => order.push('at once'));
    expect(order.at(-1)).toBe('at once');
  });

  test('hands over what waits for the thread once that has time, though nothing more comes', async () => {
    const at = fresh();
    const { writer, close } = openWriter(at);
    // More than two pages, so that the last is not full while the thread has enough to do.
    const taken = Array.from({ length: 150 }, (_, index) =>
      writer.writer.take(smallFile(writer.descriptor, `n${index}`), new Uint8Array(10)),
    );
    expect(new Set(await Promise.all(taken))).toEqual(new Set(['exclusive']));
    await close();
  });

  test('has no room for ever more, and says what the system said', async () => {
    const at = fresh();
    const { writer, close } = openWriter(at);
    const large = new Uint8Array(400_000);
    const taken = Array.from({ length: 60 }, (_, index) =>
      writer.writer.take(smallFile(writer.descriptor, `n${index}`), large),
    );
    const count = taken.filter((each) => each !== undefined).length;
    expect(count).toBeGreaterThan(3);
    expect(count).toBeLessThan(30);
    await Promise.all(taken);
    const bad = writer.writer.take(smallFile(writer.descriptor, 'x'.repeat(300)), large);
    expect(await bad?.catch((error: NodeJS.ErrnoException) => error.code)).toBe('ENAMETOOLONG');
    expect(readdirSync(at)).toHaveLength(count);
    await close();
  });

  test('keeps no more than so many folders open for files that wait, and any other is free to be closed', async () => {
    const at = fresh();
    const { writer, close } = openWriter(at);
    const folders = Array.from({ length: WAITING_FOLDERS_MAX + 10 }, () => openSync(at, 'r'));
    const taken = folders.map((held, index) =>
      writer.writer.take(smallFile(held, `n${index}`), new Uint8Array(10)),
    );
    expect(taken.indexOf(undefined)).toBe(WAITING_FOLDERS_MAX);
    // One more file of a folder that is held open anyway.
    expect(writer.writer.take(smallFile(folders[0] as number, 'more'), new Uint8Array(10))).toBeDefined();
    let closed = 0;
    for (const held of folders) {
      writer.writer.afterTaken(held, () => {
        closed += 1;
        closeSync(held);
      });
    }
    expect(closed).toBe(10);
    await close();
    expect(closed).toBe(folders.length);
    expect(readdirSync(at)).toHaveLength(WAITING_FOLDERS_MAX + 1);
  });

  function openWriter(at: string) {
    mkdirSync(at);
    const descriptor = openSync(at, 'r');
    const writer = createFileWriter({ filesBefore: 0 });
    const close = async (): Promise<void> => {
      await writer.close();
      closeSync(descriptor);
    };
    return { writer: { writer, descriptor }, close };
  }
});
