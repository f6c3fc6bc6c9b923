/** `holdfast copy` between two servers: what it copies and skips, what it leaves out, and how it goes on after a kill. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CommandResult, resultOf } from './support/command-result.ts';
import { startCountingProxy } from './support/counting-proxy.ts';
import { directory, file, type Plan, writePlan } from './support/disk-trees.ts';
import { ByteSpoiler } from './support/embedded-files.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { readPlace } from './support/read-place.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { cleanEnvironment } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const folder = makeTempFolder('copy');
const config = join(folder.path, 'config');
/** Requests of a mirror that has nothing to do, for each name. */
const IDLE_REQUESTS_MAX = 5;
let near: RunningServer;
let far: RunningServer;
/** The far server as one without Bulk. */
let single: ReturnType<typeof startCountingProxy>;

beforeAll(async () => {
  [near, far] = await Promise.all([startFreshServer('copy-near'), startFreshServer('copy-far')]);
  single = startCountingProxy(far.server.url, { offersBulk: false });
  const profiles = ['home', 'single', 'kill', 'rot', 'prune', 'empty'].flatMap((space) => [
    [space, profileOf(near, space)],
    [`far-${space}`, profileOf(far, space)],
  ]);
  profiles.push(['far-single', { ...profileOf(far, 'single'), url: single.url }]);
  mkdirSync(join(config, 'holdfast'), { recursive: true });
  const text = JSON.stringify({ version: 1, default: null, profiles: Object.fromEntries(profiles) });
  writeFileSync(join(config, 'holdfast', 'profiles.json'), text, { mode: 0o600 });
});
afterAll(async () => {
  await single?.close();
  await Promise.all([near?.remove(), far?.remove()]);
  folder.remove();
});

function profileOf({ server, issuer }: RunningServer, space: string): Record<string, string> {
  return { url: server.url, app: APP, space, token: issuer.token(space) };
}

function start(...args: readonly string[]): Bun.Subprocess<'ignore', 'pipe', 'pipe'> {
  const env = { ...cleanEnvironment(), XDG_CONFIG_HOME: config, XDG_CACHE_HOME: join(folder.path, 'cache') };
  const io = { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' } as const;
  return Bun.spawn([HOLDFAST, ...args], { cwd: folder.path, env, ...io });
}

const run = (...args: readonly string[]): Promise<CommandResult> => resultOf(start(...args));

async function runWell(...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await run(...args);
  if (exitCode !== 0) throw new Error(`holdfast ${args.join(' ')}: ${stderr}`);
  return stdout.trimEnd();
}

async function copy(...args: readonly string[]) {
  return JSON.parse(await runWell('copy', ...args, '--json'));
}

async function list(profile: string): Promise<Record<string, unknown>[]> {
  return JSON.parse(await runWell('snapshots', '--profile', profile, '--json'));
}

async function push(profile: string, name: string, plan: Plan, ...args: string[]): Promise<string> {
  const path = join(folder.path, `${profile}-${name}`);
  writePlan(path, plan);
  return runWell('push', path, '--name', name, '--quiet', '--profile', profile, ...args);
}

const tree = directory({
  big: file(5_000_000, 1),
  sub: directory({ x: file(10, 2), deep: directory({ y: file(70_000, 3) }) }),
});

test('copies a snapshot with its tree, what is there neither again nor the tree of it', async () => {
  const root = await push('home', 'work', tree);
  const [pushed] = await list('home');
  const first = await copy('work', '--profile', 'home', '--to', 'far-home');
  expect(Object.keys(first)).toEqual(['snapshots', 'sentNodes', 'sentBytes', 'requests', 'leftOut']);
  expect(first.snapshots).toEqual([{ ...pushed, copiedFrom: { app: APP, space: 'home' } }]);
  expect(await list('far-home')).toEqual(first.snapshots);
  await runWell('pull', 'work', 'pulled', '--quiet', '--profile', 'far-home');
  expect(await runWell('push', 'pulled', '--quiet', '--profile', 'far-home')).toBe(root);

  const nothing = { snapshots: [], sentNodes: 0, sentBytes: 0, leftOut: [] };
  const again = await copy('--all', '--profile', 'home', '--to', 'far-home');
  expect(again).toMatchObject(nothing);
  expect(again.requests).toBeLessThanOrEqual(IDLE_REQUESTS_MAX);

  writeFileSync(join(folder.path, 'home-work', 'sub', 'x'), 'changed');
  await runWell('push', 'home-work', '--name', 'work', '--quiet', '--profile', 'home');
  const changed = await copy('--all', '--profile', 'home', '--to', 'far-home');
  // The file and the two folders above it.
  expect([changed.snapshots.length, changed.sentNodes]).toEqual([1, 3]);

  const part = ['work/sub', '--profile', 'home', '--to', 'far-home', '--as', 'part'];
  expect((await copy(...part)).snapshots).toMatchObject([{ name: 'part', path: 'work/sub' }]);
  expect(await copy(...part)).toMatchObject(nothing);
  const renamed = ['work', '--profile', 'home', '--to', 'far-home', '--as', 'other'];
  expect((await copy(...renamed)).snapshots).toMatchObject([{ name: 'other', host: pushed?.host }]);
  expect(await copy(...renamed)).toMatchObject(nothing);
  expect((await copy(root, '--profile', 'home', '--to', 'far-home', '--as', 'old')).snapshots).toHaveLength(
    1,
  );
});

test('skips what is there on a server without Bulk too', async () => {
  const small = directory({ top: file(10, 1), sub: directory({ x: file(10, 2) }) });
  const root = await push('single', 'work', small);
  const part = await copy('work/sub', '--profile', 'single', '--to', 'far-single', '--as', 'part');
  const all = await copy('work', '--profile', 'single', '--to', 'far-single');
  expect(all.snapshots).toMatchObject([{ root }]);
  expect([part.sentNodes, all.sentNodes]).toEqual([2, 2]);
});

test('goes on where a kill stopped it', async () => {
  const entries = Array.from({ length: 60 }, (_, index) => [`f${index}`, file(200_000, 100 + index)]);
  await push('kill', 'work', directory(Object.fromEntries(entries)));
  const args = ['copy', 'work', '--profile', 'kill', '--to', 'far-kill'];
  const child = start(...args);
  await until(
    async () => (await far.client('kill').usage()).readyContentBytes > 0 || child.exitCode !== null,
  );
  child.kill('SIGKILL');
  await child.exited;
  const rest = JSON.parse(await runWell(...args, '--json'));
  // The files are one node each, and the folder is one.
  expect(rest.sentNodes).toBeLessThan(entries.length + 1);
  await runWell('verify', 'work', '--profile', 'far-kill');
  expect(await list('far-kill')).toHaveLength(1);
});

test('leaves out a tree that cannot be read whole, names its lost node, and copies the others', async () => {
  await push('rot', 'good', tree);
  await push('rot', 'bad', directory({ only: file(3_000, 7) }));
  const listed = JSON.parse(await runWell('ls', 'bad', '--json', '--profile', 'rot'));
  const lost: string = listed.entries[0].hash;
  new ByteSpoiler(near.data).spoil(readPlace(near.data, lost, 'rot'), 'lost');
  const { exitCode, stdout, stderr } = await run(
    'copy',
    '--all',
    '--profile',
    'rot',
    '--to',
    'far-rot',
    '--json',
  );
  expect([exitCode, JSON.parse(stdout).snapshots.map(({ name }: { name: string }) => name)]).toEqual([
    3,
    ['good'],
  ]);
  expect(JSON.parse(stdout).leftOut).toMatchObject([{ name: 'bad' }]);
  expect(stderr).toContain(lost);
  expect(await list('far-rot')).toHaveLength(1);
});

test('prunes what the source does not list any more, but nothing that is pinned or of others', async () => {
  for (const name of ['gone', 'stays', 'pinned']) await push('prune', name, tree);
  const mirror = ['copy', '--all', '--profile', 'prune', '--to', 'far-prune'];
  await push('far-prune', 'own', tree);
  await runWell(...mirror);
  const pin = (await list('far-prune')).find(({ name }) => name === 'pinned');
  await runWell('snapshots', 'pin', String(pin?.id), '--profile', 'far-prune');
  for (const name of ['gone', 'pinned']) await runWell('forget', name, '--all', '--profile', 'prune');
  await runWell(...mirror);
  const names = async () => (await list('far-prune')).map(({ name }) => name).toSorted();
  expect(await names()).toEqual(['gone', 'own', 'pinned', 'stays']);
  await runWell(...mirror, '--prune');
  expect(await names()).toEqual(['own', 'pinned', 'stays']);
});

test('what is wrong usage is 2, what cannot be is 1, and nothing is changed', async () => {
  const hash = 'a'.repeat(64);
  for (const [exitCode, args] of [
    [2, ['work']],
    [2, ['--to', 'far-empty']],
    [2, ['work', '--all', '--to', 'far-empty']],
    [2, ['work', '--prune', '--to', 'far-empty']],
    [2, [hash, '--to', 'far-empty']],
    [2, ['work/sub', '--to', 'far-empty']],
    [2, ['work', 'other', '--as', 'one', '--to', 'far-empty']],
    [1, ['work', '--to', 'nowhere']],
    [1, ['none', '--to', 'far-empty']],
    [1, ['--all', '--prune', '--to', 'far-empty']],
  ] as const) {
    const result = await run('copy', ...args, '--profile', 'empty');
    expect([args, result.exitCode, result.stdout]).toEqual([args, exitCode, '']);
  }
  expect(await list('far-empty')).toEqual([]);
});
