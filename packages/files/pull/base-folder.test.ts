/** An entry that stands where a pull is to write, and when the pull may replace it. */
import { afterAll, expect, test } from 'bun:test';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { directory, file } from '../../../test/support/disk-trees.ts';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { failureOf, freshPaths, makeSource, readStanding, standingOf } from '../test/pull-fixture.ts';
import { makeBase } from './base-folder.ts';
import { pullToPath } from './pull-to-path.ts';

const folder = makeTempFolder('pull-base', { fast: true });
afterAll(() => folder.remove());
const fresh = freshPaths(folder.path);
const sample = directory({ 'a.txt': file(100), sub: directory({ 'b.txt': file(10) }) });

function makePipe(path: string): void {
  expect(Bun.spawnSync(['mkfifo', path]).exitCode).toBe(0);
}

const bases: readonly [string, (path: string) => void, RegExp][] = [
  [
    'a file',
    (path) => writeFileSync(path, 'x'),
    /is not a folder but a file; nothing was written: .* --force$/,
  ],
  ['a dangling link', (path) => symlinkSync('none', path), /is not a folder but a link that leads to none; /],
  [
    'a link to a file',
    (path) => symlinkSync('other', path),
    /is not a folder but a link that leads to none; /,
  ],
];
test.each(bases)(
  'a target that is %s is refused; --force replaces it, and nothing else',
  async (_, make, reason) => {
    const { root, source } = await makeSource(sample);
    const around = fresh();
    mkdirSync(around);
    writeFileSync(join(around, 'other'), 'mine');
    const target = join(around, 'target');
    make(target);
    expect(await failureOf(pullToPath(source, root, target))).toMatch(reason);
    expect(lstatSync(target).isDirectory()).toBe(false);
    // The path is not in the tree: nothing is touched.
    const missing = pullToPath(source, root, target, { force: true, paths: [[Buffer.from('none')]] });
    await expect(missing).rejects.toThrow('does not exist');
    expect(lstatSync(target).isDirectory()).toBe(false);
    await pullToPath(source, root, target, { force: true });
    expect(readStanding(target)).toEqual(standingOf(sample));
    expect(readdirSync(around).toSorted()).toEqual(['other', 'target']);
    expect(readFileSync(join(around, 'other'), 'utf8')).toBe('mine');
  },
);

test('a target below a file, or below a link that leads nowhere, is refused even with --force', async () => {
  const { root, source } = await makeSource(sample);
  const [file, link] = [fresh(), fresh()];
  writeFileSync(file, 'mine');
  symlinkSync('none', link);
  const single = await makeSource(sample.entries.get('a.txt')!);
  const besides = pullToPath(single.source, single.root, join(file, 'a.txt'), { force: true });
  expect(await failureOf(besides)).toMatch(/is not a folder but a file; .* another place for the tree$/);
  for (const above of [file, link]) {
    const pulling = pullToPath(source, root, join(above, 'below'), { force: true });
    expect(await failureOf(pulling)).toContain('is below a file, below a link that leads nowhere, or ');
  }
  expect([readFileSync(file, 'utf8'), readlinkSync(link)]).toEqual(['mine', 'none']);
});

test('a pipe stays, or a link to one, even with --force, for a folder and for a file', async () => {
  const { root, source } = await makeSource(sample);
  const single = await makeSource(sample.entries.get('a.txt')!);
  const pipe = fresh();
  makePipe(pipe);
  const link = fresh();
  symlinkSync(pipe, link);
  for (const target of [pipe, link]) {
    for (const force of [false, true]) {
      for (const { root: hash, source: from } of [{ root, source }, single]) {
        const refusal = await failureOf(pullToPath(from, hash, target, { force }));
        expect(refusal).toContain('pipe, socket or device');
        expect(refusal).not.toContain('--force');
      }
    }
  }
  expect([lstatSync(pipe).isFIFO(), readlinkSync(link)]).toEqual([true, pipe]);
});

test('a device stays, even with --force', async () => {
  const { root, source } = await makeSource(sample);
  const target = fresh();
  // The null device, under another name: only root may make one.
  expect(Bun.spawnSync(['mknod', target, 'c', '1', '3']).exitCode).toBe(0);
  const refusal = await failureOf(pullToPath(source, root, target, { force: true }));
  expect(refusal).toMatch(/is not a folder but a pipe, socket or device; .* another place for the tree$/);
  expect(lstatSync(target).isCharacterDevice()).toBe(true);
});

test('a link to a folder is that folder, which --force never replaces', async () => {
  const { root, source } = await makeSource(sample);
  const [target, link] = [fresh(), fresh()];
  mkdirSync(target);
  symlinkSync(target, link);
  await pullToPath(source, root, link, { force: true });
  expect(lstatSync(link).isSymbolicLink()).toBe(true);
  expect(readStanding(target)).toEqual(standingOf(sample));
});

test('a path that ends in a slash is no place for a file', async () => {
  const { root, source } = await makeSource(file(10));
  const target = fresh();
  expect(await failureOf(pullToPath(source, root, `${target}/`))).toContain(
    `is a file; give the path it is to have`,
  );
  expect(existsSync(target)).toBe(false);
});

test('with fsync all names that lead to the folder are durable, whoever made them', () => {
  const stood = fresh();
  mkdirSync(stood);
  const synced: string[] = [];
  const options = { isNamed: true, force: true, fsync: true };
  const make = (path: string): void => makeBase(path, options, (folder) => synced.push(folder.toString()));
  const made = join(stood, 'a', 'b', 'c');
  const due = [made, dirname(made), join(stood, 'a'), stood, dirname(stood)];
  // A killed pull may have made them.
  for (let time = 0; time < 2; time += 1) {
    make(made);
    expect(synced.splice(0).slice(0, due.length)).toEqual(due);
  }
  writeFileSync(join(stood, 'file'), '');
  make(join(stood, 'file'));
  expect(synced.slice(0, 2)).toEqual([join(stood, 'file'), stood]);
});
