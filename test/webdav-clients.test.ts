/** Real programs use `holdfast gateway webdav`: litmus, rclone, restic through rclone, cadaver, davfs2. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { appendFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { directory, file, writePlan } from './support/disk-trees.ts';
import { ensureFuse, runProgram } from './support/fuse.ts';
import { endGateway, type GatewayProcess, startGateway } from './support/gateway-process.ts';
import { TreeCommands } from './support/tree-commands.ts';
import { ensureWebdavClients } from './support/webdav-clients.ts';

const SPACE = 'clients';
const NAME = 'ä b&c.txt';
const SUITES = ['basic', 'copymove', 'props', 'locks', 'http'] as const;
/** Names of plans are bytes. */
const plan = directory({
  [Buffer.from(NAME).toString('latin1')]: file(10, 1),
  large: file(3_000_000, 2),
  sub: directory({ a: file(300, 3), deep: directory({ b: file(70_000, 4) }) }),
});
let commands: TreeCommands;
let gateway: GatewayProcess;
let environment: Record<string, string>;
let canMount = false;

beforeAll(async () => {
  await ensureWebdavClients();
  commands = await TreeCommands.start('webdav-clients');
  canMount = await ensureFuse(commands.fresh('probe'));
  gateway = await startGateway(commands.environment(SPACE), 'webdav', '--open');
  environment = {
    RCLONE_CONFIG: '/dev/null',
    RCLONE_WEBDAV_URL: gateway.url,
    RCLONE_WEBDAV_VENDOR: 'owncloud',
    RESTIC_PASSWORD: 'of the test',
    RESTIC_CACHE_DIR: commands.fresh('restic-cache'),
  };
  for (const name of ['synced', 'restic', 'mounted', 'cadaver', ...SUITES])
    await fetch(`${gateway.url}${name}`, { method: 'MKCOL' });
});
afterAll(async () => {
  await endGateway(gateway);
  await commands.remove();
});

async function run(...command: string[]): Promise<string> {
  const { exitCode, output } = await runProgram(command, environment);
  if (exitCode !== 0) throw new Error(`${command.join(' ')}: ${output}`);
  return output;
}

test('litmus passes all five suites and skips nothing', async () => {
  const suite = async (name: string): Promise<string> => {
    // It writes logs where it is.
    const folder = commands.fresh('litmus');
    mkdirSync(folder);
    const command = ['sh', '-c', `cd ${folder} && exec litmus ${gateway.url}${name}/`];
    return (await runProgram(command, { TESTS: name })).output;
  };
  for (const [index, output] of (await Promise.all(SUITES.map(suite))).entries()) {
    expect(output).toMatch(
      new RegExp(`summary for .${SUITES[index]}.: of (\\d+) tests run: \\1 passed, 0 failed`),
    );
    expect(output).not.toMatch(/SKIPPED|WARNING/);
  }
});

test('rclone syncs both ways and finds no difference; restic keeps a repository through it', async () => {
  const source = commands.fresh('source');
  writePlan(source, plan);
  await run('rclone', 'sync', source, ':webdav:synced');
  expect(await run('rclone', 'check', source, ':webdav:synced')).toContain('0 differences found');
  appendFileSync(join(source, 'sub', 'a'), 'more');
  rmSync(join(source, 'large'));
  await run('rclone', 'sync', source, ':webdav:synced');
  const back = commands.fresh('back');
  await run('rclone', 'sync', ':webdav:synced', back);
  await run('diff', '-r', source, back);

  const serving = Bun.spawn(['rclone', 'serve', 'restic', ':webdav:restic', '--addr', '127.0.0.1:0'], {
    env: { ...process.env, ...environment },
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: 'pipe',
  });
  try {
    const url = await findAddress(serving.stderr);
    const restic = (...args: string[]) => run('restic', '-r', `rest:${url}`, '-q', ...args);
    await restic('init');
    await restic('backup', source);
    writeFileSync(join(source, 'new'), 'new');
    await restic('backup', source);
    await restic('forget', '--keep-last', '1', '--prune');
    await restic('check', '--read-data');
    const restored = commands.fresh('restored');
    await restic('restore', 'latest', '--target', restored);
    await run('diff', '-r', source, join(restored, source));
  } finally {
    serving.kill('SIGKILL');
    await serving.exited;
  }
});

async function findAddress(stream: ReadableStream<Uint8Array>): Promise<string> {
  let said = '';
  for await (const chunk of stream) {
    said += new TextDecoder().decode(chunk);
    const [url] = /http:\/\/127\.0\.0\.1:\d+\//.exec(said) ?? [];
    if (url !== undefined) return url;
  }
  throw new Error(`rclone serves nothing: ${said}`);
}

test('cadaver puts, moves, locks, gets and deletes', async () => {
  const source = commands.fresh('file');
  writePlan(source, file(100_000, 5));
  const got = commands.fresh('got');
  const lines = [
    'mkcol c',
    'cd c',
    `put ${source} x`,
    'move x y',
    'lock y',
    'unlock y',
    `get y ${got}`,
    'delete y',
  ];
  const script = commands.fresh('script');
  writeFileSync(script, `${lines.join('\n')}\ncd ..\nrmcol c\nquit\n`);
  const output = await run('sh', '-c', `cadaver ${gateway.url}cadaver < ${script}`);
  expect(output).not.toMatch(/failed|error/i);
  await run('cmp', source, got);
});

test('a kernel writes and reads through davfs2', async () => {
  if (!canMount || process.getuid?.() !== 0) return;
  const [folder, config] = [commands.fresh('davfs'), commands.fresh('config')];
  mkdirSync(folder);
  writeFileSync(config, 'ask_auth 0\nuse_locks 1\n', { mode: 0o600 });
  const source = commands.fresh('source');
  writePlan(source, plan);
  await run('mount.davfs', '-o', `conf=${config}`, `${gateway.url}mounted`, folder);
  try {
    await run('cp', '-r', source, join(folder, 'tree'));
    await run('mv', join(folder, 'tree', 'sub'), join(folder, 'sub'));
    await run('rm', join(folder, 'tree', 'large'));
  } finally {
    // It writes what it has first.
    await run('umount', folder);
  }
  const pulled = commands.fresh('pulled');
  await commands.runWell(SPACE, 'pull', 'mounted', pulled, '--quiet');
  await run('diff', '-r', join(source, 'sub'), join(pulled, 'sub'));
  expect(readdirSync(join(pulled, 'tree'))).toEqual([NAME]);
});
