/** `holdfast mount` by a real kernel, where the system allows it: programs read the tree, and the mount ends. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { open, readdir, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { contentOf, directory, file, writePlan } from './support/disk-trees.ts';
import { ensureFuse, type MountedFolder, runProgram, startMount } from './support/fuse.ts';
import { sampleTree, TreeCommands } from './support/tree-commands.ts';
import { until } from './support/until.ts';

const SPACE = 'mount';
const LARGE_BYTES = 9_000_000;
const large = { kind: 'file', size: LARGE_BYTES, seed: 9 } as const;
let commands: TreeCommands;
let canMount = false;
let source = '';
const mounted: MountedFolder[] = [];

beforeAll(async () => {
  commands = await TreeCommands.start('mount');
  canMount = await ensureFuse(commands.fresh('probe'));
  source = commands.fresh('source');
  writePlan(source, directory({ large, sample: sampleTree }));
  await commands.runWell(SPACE, 'push', source, '--name', 'tree', '--quiet', '--mtime');
});
afterAll(async () => {
  for (const each of mounted) await each.remove();
  await commands.remove();
});

async function mount(args: readonly string[], more: Record<string, string> = {}): Promise<MountedFolder> {
  const path = commands.fresh('mounted');
  mkdirSync(path);
  const each = await startMount(args, path, { ...commands.environment(SPACE), ...more });
  mounted.push(each);
  return each;
}

/** The message on a machine where nothing can be mounted. */
async function isRefused(): Promise<boolean> {
  if (canMount) return false;
  const folder = commands.fresh('refused');
  mkdirSync(folder);
  expect(await commands.runBadly(1, SPACE, 'mount', folder)).toMatch(/fuse|mount/);
  return true;
}

test('every program reads the tree as it was pushed, and none writes', async () => {
  if (await isRefused()) return;
  const { path, process: door, said } = await mount(['tree']);
  expect(await runProgram(['diff', '-r', '--no-dereference', source, path])).toEqual({
    exitCode: 0,
    output: '',
  });
  const copy = commands.fresh('copy');
  expect((await runProgram(['cp', '-a', path, copy])).exitCode).toBe(0);
  expect((await runProgram(['diff', '-r', '--no-dereference', source, copy])).exitCode).toBe(0);
  expect((await runProgram(['tar', '-cf', '/dev/null', '-C', path, '.'])).exitCode).toBe(0);
  const modes = await Promise.all(
    ['', 'large', 'sample/src/main.ts'].map(async (each) => (await stat(join(path, each))).mode.toString(8)),
  );
  expect(modes).toEqual(['40555', '100444', '100555']);
  const [own, theirs] = await Promise.all([stat(join(path, 'large')), stat(join(source, 'large'))]);
  expect([own.mtimeMs, own.size]).toEqual([theirs.mtimeMs, LARGE_BYTES]);
  const content = contentOf(large);
  const handle = await open(join(path, 'large'));
  for (const place of [LARGE_BYTES - 5, 4_000_001, 17]) {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(70_000), 0, 70_000, place);
    expect(buffer.subarray(0, bytesRead).equals(content.subarray(place, place + 70_000))).toBe(true);
  }
  await handle.close();
  for (const command of [
    ['touch', 'new'],
    ['rm', 'large'],
    ['mkdir', 'd'],
    ['sh', '-c', 'echo x >> large'],
  ]) {
    const { output } = await runProgram(['env', '-C', path, ...command]);
    expect(output).toContain('Read-only file system');
  }
  expect((await runProgram(['umount', path])).exitCode).toBe(0);
  expect([await door.exited, await said]).toEqual([0, '']);
});

test('names are folders of their snapshots, and new ones show, while what is open stays', async () => {
  if (await isRefused()) return;
  const { path, process: door } = await mount([]);
  const handle = await open(join(path, 'tree', 'latest', 'large'));
  const first = await readlink(join(path, 'tree', 'latest'));
  expect(first).toMatch(/^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ$/);
  expect((await readdir(join(path, 'tree'))).toSorted()).toEqual([first, 'latest']);
  await commands.runWell(SPACE, 'edit', 'tree', 'rm', 'sample');
  const latest = (): Promise<string[]> => readdir(join(path, 'tree', 'latest')).catch(() => []);
  await until(async () => (await latest()).join() === 'large');
  // Two snapshots of one second have digits of their IDs.
  const times = (await readdir(join(path, 'tree'))).filter((name) => name.startsWith(first));
  expect(await readdir(join(path, 'tree', times.toSorted()[0] ?? ''))).toContain('large');
  expect(readdir(join(path, 'nothing'))).rejects.toMatchObject({ code: 'ENOENT' });
  // Detached while a file is open.
  door.kill('SIGTERM');
  expect(await door.exited).toBe(0);
  expect(await readdir(path)).toEqual([]);
  await handle.close();
});

test('what the server refuses is EIO, and comes with a renewed token; a killed mount is replaced', async () => {
  if (await isRefused()) return;
  const token = commands.fresh('token');
  const { HOLDFAST_TOKEN: good = '', ...rest } = commands.environment(SPACE);
  writeFileSync(token, good, { mode: 0o600 });
  const { path, process: door, said } = await mount(['--token-file', token], { ...rest, HOLDFAST_TOKEN: '' });
  const past = Math.floor(Date.now() / 1_000) - 3_600;
  writeFileSync(token, commands.running.issuer.token(SPACE, { iat: past - 60, exp: past }));
  const codeOf = (work: Promise<unknown>) => work.then(String, ({ code }: NodeJS.ErrnoException) => code);
  await until(async () => (await codeOf(readdir(path))) === 'EIO');
  expect(await codeOf(stat(join(path, 'none')))).toBe('EIO');
  writeFileSync(token, good);
  await until(async () => (await codeOf(stat(join(path, 'none')))) === 'ENOENT');
  const files = [join(path, 'tree', 'latest', 'large'), join(source, 'large')];
  expect((await runProgram(['cmp', ...files])).exitCode).toBe(0);
  door.kill('SIGKILL');
  await door.exited;
  expect((await said).match(/EIO meanwhile\n/g)).toHaveLength(1);
  expect(stat(path)).rejects.toMatchObject({ code: 'ENOTCONN' });
  const again = await startMount(['tree'], path, commands.environment(SPACE));
  mounted.push(again);
  expect(await readdir(path)).toContain('large');
});

test('what is no folder, is not there or not empty is refused', async () => {
  const folder = commands.fresh('taken');
  writePlan(folder, directory({ a: file(1) }));
  expect(await commands.runBadly(1, SPACE, 'mount', 'tree/large', folder)).toContain('is a file');
  expect(await commands.runBadly(1, SPACE, 'mount', 'none', folder)).toContain('none');
  expect(await commands.runBadly(2, SPACE, 'mount', 'a b', folder)).toContain('a b');
  if (await isRefused()) return;
  expect(await commands.runBadly(1, SPACE, 'mount', 'tree', folder)).toContain('is not empty');
  // By its text, link/../only is missing; the system means a folder with a file.
  const elsewhere = commands.fresh('elsewhere');
  writePlan(elsewhere, directory({ below: directory({}), only: directory({ a: file(1) }) }));
  const link = join(folder, 'link');
  symlinkSync(join(elsewhere, 'below'), link);
  expect(await commands.runBadly(1, SPACE, 'mount', 'tree', `${link}/../only`)).toContain('is not empty');
  expect(await commands.runBadly(1, SPACE, 'mount', 'tree', join(folder, 'b'))).toContain('mkdir');
  expect(await commands.runBadly(1, SPACE, 'mount', 'tree', join(folder, 'a'))).toContain('it is no folder');
});
