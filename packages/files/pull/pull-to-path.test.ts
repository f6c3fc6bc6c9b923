/** Pulling to a real disk: what stands there afterwards is the tree, and nothing else has changed. */
import { afterAll, describe, expect, test } from 'bun:test';
import {
  appendFileSync,
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { PullConflictError } from '@holdfast/client';
import fc from 'fast-check';
import { directory, file, makeLargePlans, type Plan, plans } from '../../../test/support/disk-trees.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { failureOf, freshPaths, makeSource, readStanding, standingOf } from '../test/pull-fixture.ts';
import { CheckedFolders } from './checked-folders.ts';
import { pullToPath } from './pull-to-path.ts';

const folder = makeTempFolder('pull', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);

const link = (target: string): Plan => ({ kind: 'symlink', target });
const program = (size: number): Plan => ({ kind: 'file', size, seed: 1, isExecutable: true });
const sample = directory({
  'a.txt': file(100),
  empty: directory(),
  large: file(3_000_000, 2),
  link: link('a.txt'),
  run: program(10),
  sub: directory({ deeper: directory({ 'b.txt': file(0) }), out: link('/etc/passwd') }),
});

function leftovers(path: string): string[] {
  return readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.part'));
}

describe('what was pulled is the tree', () => {
  test('any tree; again there is nothing to do', async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const { root, source } = await makeSource(plan);
        const target = fresh();
        await pullToPath(source, root, target);
        expect(readStanding(target)).toEqual(standingOf(plan));
        const again = await pullToPath(source, root, target);
        expect([again.writtenFiles, again.writtenBytes]).toEqual([0, 0]);
        rmSync(target, { recursive: true });
      }),
      { numRuns: 8 },
    );
  });

  test.each(Object.entries(makeLargePlans()))('a tree that is %s', async (_, plan) => {
    const { root, source } = await makeSource(plan);
    const target = fresh();
    await pullToPath(source, root, target);
    expect(readStanding(target)).toEqual(standingOf(plan));
    expect((await pullToPath(source, root, target)).writtenBytes).toBe(0);
  });

  test('any tree, where folders cannot be held open', async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const { root, source } = await makeSource(plan);
        const target = fresh();
        mkdirSync(target);
        await pullToPath(source, root, target, { folders: new CheckedFolders(target) });
        expect(readStanding(target)).toEqual(standingOf(plan));
        rmSync(target, { recursive: true });
      }),
      { numRuns: 3 },
    );
  });

  test('a path longer than the system takes', async () => {
    let deep: Plan = directory({ bottom: file(10) });
    for (let level = 0; level < 60; level += 1) deep = directory({ ['d'.repeat(200)]: deep });
    const { root, source } = await makeSource(deep);
    const target = fresh();
    await pullToPath(source, root, target);
    expect((await pullToPath(source, root, target)).writtenFiles).toBe(0);
    const found = Bun.spawnSync(['find', target, '-name', 'bottom', '-size', '10c', '-printf', '%d']);
    expect(found.stdout.toString()).toBe('61');
    Bun.spawnSync(['rm', '-rf', target]);
  });

  test.each(['file', 'link'])('a %s goes to the path itself', async (kind) => {
    const plan = kind === 'file' ? file(300_000, 4) : link('somewhere');
    const { root, source } = await makeSource(plan);
    const target = join(fresh(), 'made', 'name');
    await pullToPath(source, root, target);
    expect(readStanding(target)).toEqual(standingOf(plan));
    expect((await pullToPath(source, root, target)).writtenFiles).toBe(0);
    rmSync(target);
    writeFileSync(target, 'other');
    expect(await failureOf(pullToPath(source, root, target), PullConflictError)).toContain('name: ');
    await pullToPath(source, root, target, { force: true });
    expect(readStanding(target)).toEqual(standingOf(plan));
    for (const ending of ['/', '/.']) {
      const pulling = pullToPath(source, root, `${target}-folder${ending}`);
      expect(await failureOf(pulling)).toContain('names a folder');
    }
    expect(await failureOf(pullToPath(source, root, target, { paths: [[Buffer.from('x')]] }))).toContain(
      '--range',
    );
  });

  test('modes follow the umask, times are those of the tree', async () => {
    const { root, source } = await makeSource(sample);
    const target = fresh();
    const umask = process.umask(0o027);
    try {
      await pullToPath(source, root, target);
    } finally {
      process.umask(umask);
    }
    const modeOf = (name: string): number => lstatSync(join(target, name)).mode & 0o7777;
    expect([modeOf('a.txt'), modeOf('large'), modeOf('run'), modeOf('sub')]).toEqual([
      0o640, 0o640, 0o750, 0o750,
    ]);
  });
});

describe('what stands there already', () => {
  test('the same bytes and mode are done, whatever their time; extra files stay', async () => {
    const { root, source } = await makeSource(sample);
    const target = fresh();
    await pullToPath(source, root, target);
    utimesSync(join(target, 'a.txt'), 1, 1);
    const before = lstatSync(join(target, 'large'));
    rmSync(join(target, 'sub', 'deeper'), { recursive: true });
    writeFileSync(join(target, 'sub', 'extra'), 'mine');
    source.reads.length = 0;
    const result = await pullToPath(source, root, target);
    expect([result.writtenFiles, result.files, result.links, result.folders]).toEqual([1, 4, 2, 3]);
    expect(lstatSync(join(target, 'a.txt')).mtimeMs).toBe(1_000);
    expect(lstatSync(join(target, 'large')).ino).toBe(before.ino);
    expect(readFileSync(join(target, 'sub', 'extra'), 'utf8')).toBe('mine');
  });

  const conflicts: readonly [string, (target: string) => void, RegExp, isReplaced: boolean][] = [
    [
      'other bytes of the same size',
      (at) => writeFileSync(join(at, 'a.txt'), 'x'.repeat(100)),
      /^a\.txt: another file/,
      true,
    ],
    ['another size', (at) => appendFileSync(join(at, 'a.txt'), 'x'), /^a\.txt: another file/, true],
    [
      'a byte in a large file',
      (at) => overwriteByte(join(at, 'large'), 2_999_999),
      /^large: another file/,
      true,
    ],
    [
      'an executable bit too many',
      (at) => chmodSync(join(at, 'a.txt'), 0o755),
      /^a\.txt: .* executable, but not in/,
      true,
    ],
    [
      'an executable bit too few',
      (at) => chmodSync(join(at, 'run'), 0o644),
      /^run: .* not executable, but it is/,
      true,
    ],
    [
      'another link',
      (at) => replace(join(at, 'link'), (path) => symlinkSync('b.txt', path)),
      /^link: another link/,
      true,
    ],
    [
      'a file for a link',
      (at) => replace(join(at, 'link'), (path) => writeFileSync(path, 'a.txt')),
      /^link: a file stands where the tree has a link;/,
      true,
    ],
    [
      'a link for a file',
      (at) => replace(join(at, 'a.txt'), (path) => symlinkSync('run', path)),
      /^a\.txt: a link stands where the tree has a file;/,
      true,
    ],
    [
      'a file for a folder',
      (at) => replace(join(at, 'sub'), (path) => writeFileSync(path, '')),
      /^sub: a file stands where the tree has a folder;/,
      true,
    ],
    [
      'a link for a folder',
      (at) => replace(join(at, 'sub'), (path) => symlinkSync('empty', path)),
      /^sub: a link stands/,
      true,
    ],
    [
      'a pipe for a file',
      (at) => replace(join(at, 'a.txt'), makePipe),
      /^a\.txt: a pipe, socket or device stands where the tree has a file;/,
      false,
    ],
    [
      'a pipe for a folder',
      (at) => replace(join(at, 'sub'), makePipe),
      /^sub: a pipe, socket or device stands where the tree has a folder;/,
      false,
    ],
    [
      'a folder for a file',
      (at) => replace(join(at, 'a.txt'), (path) => mkdirSync(path)),
      /^a\.txt: a folder stands/,
      false,
    ],
    [
      'a folder for a link',
      (at) => replace(join(at, 'link'), (path) => mkdirSync(path)),
      /^link: a folder stands where the tree has a link;/,
      false,
    ],
  ];
  test.each(conflicts)(
    '%s stops the pull before it writes; --force replaces it if it is a file or link',
    async (_, spoil, reason, isReplaced) => {
      const { root, source } = await makeSource(sample);
      const target = fresh();
      await pullToPath(source, root, target);
      rmSync(join(target, 'empty'), { recursive: true });
      spoil(target);
      const message = await failureOf(pullToPath(source, root, target), PullConflictError);
      expect(message).toMatch(reason);
      expect(message).toContain('nothing was written');
      // `empty` comes early: it would have been made.
      expect(existsSync(join(target, 'empty'))).toBe(false);
      const forced = pullToPath(source, root, target, { force: true });
      expect(message.includes('--force')).toBe(isReplaced);
      if (!isReplaced) {
        expect(await failureOf(forced, PullConflictError)).toMatch(/only files and links are ever replaced$/);
        return;
      }
      await forced;
      expect(readStanding(target)).toEqual(standingOf(sample));
    },
  );

  test('only the first conflicts are named, all are counted', async () => {
    const { root, source } = await makeSource(sample);
    const target = fresh();
    mkdirSync(target);
    for (const name of ['a.txt', 'large', 'run']) writeFileSync(join(target, name), name);
    expect(await failureOf(pullToPath(source, root, target), PullConflictError)).toMatch(
      /^a\.txt: .*, and 2 more; /,
    );
  });

  test('a wrong mode alone is set without writing the file again, and set-uid bits go', async () => {
    const { root, source } = await makeSource(directory({ run: program(1_000) }));
    const target = fresh();
    await pullToPath(source, root, target);
    const path = join(target, 'run');
    const { ino } = lstatSync(path);
    chmodSync(path, 0o6640);
    const result = await pullToPath(source, root, target, { force: true });
    expect([result.writtenFiles, lstatSync(path).ino, lstatSync(path).mode & 0o7777]).toEqual([
      0,
      ino,
      0o750,
    ]);
  });

  test('other names of a replaced file keep their bytes', async () => {
    const { root, source } = await makeSource(sample);
    const target = fresh();
    mkdirSync(target);
    const other = join(folder.path, 'other-name');
    writeFileSync(other, 'mine');
    linkSync(other, join(target, 'a.txt'));
    await pullToPath(source, root, target, { force: true });
    expect(readFileSync(other, 'utf8')).toBe('mine');
    expect(statSync(join(target, 'a.txt')).size).toBe(100);
  });
});

describe('a part of the tree', () => {
  const names = (path: string): Uint8Array[] => path.split('/').map((name) => Buffer.from(name));

  test('only what was asked for, and the folders that lead there', async () => {
    const { root, source } = await makeSource(sample);
    const target = fresh();
    const result = await pullToPath(source, root, target, { paths: [names('sub/deeper'), names('run')] });
    expect(readStanding(target)).toEqual(
      standingOf(
        directory({ run: program(10), sub: directory({ deeper: directory({ 'b.txt': file(0) }) }) }),
      ),
    );
    expect([result.files, result.folders]).toEqual([2, 1]);
    await pullToPath(source, root, target);
    expect(readStanding(target)).toEqual(standingOf(sample));
  });

  test('conflicts elsewhere do not matter', async () => {
    const { root, source } = await makeSource(sample);
    const target = fresh();
    mkdirSync(target);
    writeFileSync(join(target, 'a.txt'), 'mine');
    await pullToPath(source, root, target, { paths: [names('run')] });
    expect(readFileSync(join(target, 'a.txt'), 'utf8')).toBe('mine');
  });

  test('a path that does not exist fails before anything is written', async () => {
    const { root, source } = await makeSource(sample);
    const target = fresh();
    for (const path of ['nothing', 'sub/nothing', 'run/below']) {
      const pulling = pullToPath(source, root, target, { paths: [names('a.txt'), names(path)] });
      expect(await failureOf(pulling, Error)).toMatch(/does not exist|nothing below/);
    }
    expect(existsSync(target)).toBe(false);
  });
});

function overwriteByte(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at]! ^= 1;
  writeFileSync(path, bytes);
}

function replace(path: string, make: (path: string) => void): void {
  rmSync(path, { recursive: true });
  make(path);
}

function makePipe(path: string): void {
  expect(Bun.spawnSync(['mkfifo', path]).exitCode).toBe(0);
}

test('leaves nothing of its own', async () => {
  const { root, source } = await makeSource(sample);
  const target = fresh();
  await pullToPath(source, root, target, { fsync: true });
  expect(leftovers(target)).toEqual([]);
  expect(readlinkSync(join(target, 'link'))).toBe('a.txt');
});
