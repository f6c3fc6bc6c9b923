/** A file with the right content gets the time of the tree, and nothing else of it changes. */
import { afterAll, describe, expect, test } from 'bun:test';
import {
  type BigIntStats,
  chmodSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { openTree, PullConflictError } from '@holdfast/client';
import { contentOf, directory, file, type Plan } from '../../../test/support/disk-trees.ts';
import { mountSmallDisk } from '../../../test/support/small-disk.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { failureOf, freshPaths, makeSource, readStanding, standingOf } from '../test/pull-fixture.ts';
import { CheckedFolders } from './checked-folders.ts';
import { pullToPath } from './pull-to-path.ts';

const folder = makeTempFolder('pull-times', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);

const MTIME_NS = 981_173_106_123_456_789n;
const LARGE_BYTES = 5_000_000;
const run: Plan = { kind: 'file', size: 10, seed: 1, isExecutable: true };
const sample = directory({
  'a.txt': file(100),
  large: file(LARGE_BYTES, 2),
  link: { kind: 'symlink', target: 'a.txt' },
  run,
  sub: directory({ 'b.txt': file(0) }),
});
/** Files and links of `sample`. */
const NAMES = ['a.txt', 'large', 'link', 'run', 'sub/b.txt'];
const names = (path: string): Uint8Array[] => path.split('/').map((name) => Buffer.from(name));

function statOf(target: string, name: string): BigIntStats {
  return lstatSync(join(target, name), { bigint: true });
}

function timesOf(target: string): bigint[] {
  return NAMES.map((name) => statOf(target, name).mtimeNs);
}

function touch(target: string, touched: readonly string[] = NAMES): void {
  for (const name of touched) lutimesSync(join(target, name), 1, 1);
}

/** A pulled tree whose files and links then got other times. */
async function makeTouched(plan: Plan = sample) {
  const { root, source } = await makeSource(plan, MTIME_NS);
  const target = fresh();
  await pullToPath(source, root, target);
  if (plan === sample) touch(target);
  return { root, source, target };
}

describe.each(['held', 'checked'])('where folders are %s', (access) => {
  const optionsFor = (target: string) => (access === 'held' ? {} : { folders: new CheckedFolders(target) });

  test('files and links get the time of the tree, and their content stays', async () => {
    const { root, source, target } = await makeTouched();
    const before = NAMES.map((name) => statOf(target, name).ino);
    let largest = 0;
    source.onRead = (_, { content }) => {
      largest = Math.max(largest, content.length);
    };
    const result = await pullToPath(source, root, target, optionsFor(target));
    expect(timesOf(target)).toEqual(NAMES.map(() => MTIME_NS));
    expect(NAMES.map((name) => statOf(target, name).ino)).toEqual(before);
    expect(readStanding(target)).toEqual(standingOf(sample));
    expect(result).toMatchObject({ files: 4, links: 1, bytes: LARGE_BYTES + 115 });
    expect([result.writtenFiles, result.writtenLinks, result.writtenBytes]).toEqual([0, 0, 0]);
    // Directories and indexes were read, no content.
    expect(largest).toBeLessThan(1_000);
  });
});

test('what has its time already is left alone', async () => {
  const { root, source, target } = await makeTouched();
  await pullToPath(source, root, target);
  const before = NAMES.map((name) => statOf(target, name).ctimeNs);
  await pullToPath(source, root, target);
  expect(NAMES.map((name) => statOf(target, name).ctimeNs)).toEqual(before);
});

test('a difference of a nanosecond is one', async () => {
  const { root, source, target } = await makeTouched();
  const time = '2001-02-03T04:05:06.123456788Z';
  const touched = Bun.spawnSync(['touch', '--no-dereference', '--date', time, join(target, 'a.txt')]);
  expect(touched.exitCode).toBe(0);
  await pullToPath(source, root, target);
  expect(timesOf(target)).toEqual(NAMES.map(() => MTIME_NS));
});

test('a tree without times sets none', async () => {
  const { target } = await makeTouched();
  const { root, source } = await makeSource(sample);
  await pullToPath(source, root, target);
  expect(timesOf(target)).toEqual(NAMES.map(() => 1_000_000_000n));
});

test('a pull that stops at a conflict sets no time', async () => {
  const { root, source, target } = await makeTouched();
  writeFileSync(join(target, 'run'), 'mine');
  const before = timesOf(target);
  expect(await failureOf(pullToPath(source, root, target), PullConflictError)).toContain(
    'nothing was written',
  );
  expect(timesOf(target)).toEqual(before);
});

test('only what was asked for gets its time', async () => {
  const { root, source, target } = await makeTouched();
  const result = await pullToPath(source, root, target, { paths: [names('sub'), names('run')] });
  expect(NAMES.filter((name) => statOf(target, name).mtimeNs === MTIME_NS)).toEqual(['run', 'sub/b.txt']);
  expect([result.files, result.writtenFiles]).toEqual([2, 0]);
});

test.each(['a.txt', 'large', 'link'])('%s as the root of a pull gets its time', async (name) => {
  const { root, source } = await makeSource(sample, MTIME_NS);
  const item = await openTree(source).resolvePath(root, names(name));
  const target = fresh();
  await pullToPath(source, item, target);
  touch(target, ['']);
  const result = await pullToPath(source, item, target);
  expect(statOf(target, '').mtimeNs).toBe(MTIME_NS);
  expect([result.files + result.links, result.writtenFiles + result.writtenLinks]).toEqual([1, 0]);
});

test('a wrong mode still needs --force, which sets mode and time', async () => {
  const { root, source, target } = await makeTouched();
  chmodSync(join(target, 'run'), 0o644);
  touch(target, ['run']);
  await failureOf(pullToPath(source, root, target), PullConflictError);
  const result = await pullToPath(source, root, target, { force: true });
  expect(readStanding(target)).toEqual(standingOf(sample));
  expect(timesOf(target)).toEqual(NAMES.map(() => MTIME_NS));
  expect([result.files, result.writtenFiles]).toEqual([4, 0]);
});

describe('what has changed since it was compared', () => {
  /** Does `change` when the pull, which has looked at all, begins to write. */
  async function pullAndChange(change: (target: string) => void) {
    const { root, source, target } = await makeTouched();
    let reads = 0;
    source.onRead = (hash) => {
      if (hash === root) reads += 1;
      // The item itself, the look, and now the walk that writes.
      if (hash === root && reads === 3) change(target);
    };
    const message = await failureOf(pullToPath(source, root, target));
    return { target, message };
  }

  test('a file that became a link: neither is touched', async () => {
    const outside = fresh();
    writeFileSync(outside, contentOf({ kind: 'file', size: 100, seed: 100 }));
    touch(outside, ['']);
    const { message } = await pullAndChange((target) => {
      rmSync(join(target, 'a.txt'));
      symlinkSync(outside, join(target, 'a.txt'));
    });
    expect(message).toContain('a.txt has changed while pulling');
    expect(statOf(outside, '').mtimeNs).toBe(1_000_000_000n);
  });

  test('a file that got other bytes keeps its new time', async () => {
    const { target, message } = await pullAndChange((at) => writeFileSync(join(at, 'a.txt'), 'mine'));
    expect(message).toContain('a.txt has changed while pulling');
    expect(statOf(target, 'a.txt').mtimeNs).not.toBe(MTIME_NS);
    expect(readFileSync(join(target, 'a.txt'), 'utf8')).toBe('mine');
  });

  test('a folder that became a link is not gone through', async () => {
    const outside = fresh();
    mkdirSync(outside);
    writeFileSync(join(outside, 'b.txt'), '');
    touch(outside, ['b.txt']);
    const { root, source, target } = await makeTouched();
    let reads = 0;
    source.onRead = (hash) => {
      if (hash === root) reads += 1;
      if (hash !== root || reads !== 3) return;
      renameSync(join(target, 'sub'), join(target, 'moved'));
      symlinkSync(outside, join(target, 'sub'));
    };
    const pulling = pullToPath(source, root, target, { folders: new CheckedFolders(target) });
    expect(await failureOf(pulling)).toContain('follows no links');
    expect(statOf(outside, 'b.txt').mtimeNs).toBe(1_000_000_000n);
  });
});

test('a time that the system refuses ends the pull with the name of the file', async () => {
  const { root, source } = await makeSource(directory({ sub: directory({ f: file(10) }) }), MTIME_NS);
  const disk = mountSmallDisk(1);
  try {
    const target = join(disk.path, 'target');
    await pullToPath(source, root, target);
    touch(target, ['sub/f']);
    disk.setReadOnly(true);
    expect(await failureOf(pullToPath(source, root, target))).toBe(
      `${target}/sub/f cannot get its time: the file system is read-only; choose another place`,
    );
  } finally {
    disk.remove();
  }
});

test('a file that needs a mode and a time needs no room', async () => {
  const { root, source } = await makeSource(directory({ f: file(3_000_000) }), MTIME_NS);
  const disk = mountSmallDisk(4);
  try {
    const target = join(disk.path, 'target');
    await pullToPath(source, root, target);
    chmodSync(join(target, 'f'), 0o755);
    touch(target, ['f']);
    expect((await pullToPath(source, root, target, { force: true })).writtenFiles).toBe(0);
    const { mode, mtimeNs } = statOf(target, 'f');
    expect([mode & 0o111n, mtimeNs]).toEqual([0n, MTIME_NS]);
  } finally {
    disk.remove();
  }
});
