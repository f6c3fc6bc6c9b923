/** ccache and git-lfs, as the distribution has them, and Turborepo, against `holdfast gateway cache`. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ensureCacheClients } from './support/cache-clients.ts';
import { runEngineCommand } from './support/engine-process.ts';
import { endGateway, type GatewayProcess, startGateway } from './support/gateway-process.ts';
import { ROOT } from './support/server-process.ts';
import { TreeCommands } from './support/tree-commands.ts';

const SPACE = 'cache-clients';
const SOURCES = ['a', 'b', 'c'];
let commands: TreeCommands;
let door: GatewayProcess;
/** with user and password, without a slash at its end */
let url = '';

beforeAll(async () => {
  await ensureCacheClients();
  commands = await TreeCommands.start('gateway-cache-clients');
  door = await startGateway(commands.environment(SPACE), 'cache');
  url = door.url.replace('//', `//holdfast:${door.password}@`).slice(0, -1);
});
afterAll(async () => {
  await endGateway(door);
  await commands.remove();
});

test('ccache of a second folder compiles nothing', async () => {
  const hits: string[] = [];
  for (const machine of ['one', 'two']) {
    const folder = commands.fresh(machine);
    mkdirSync(folder);
    const environment = {
      CCACHE_DIR: join(folder, 'ccache'),
      CCACHE_BASEDIR: folder,
      CCACHE_NOHASHDIR: '1',
      CCACHE_REMOTE_STORAGE: `${url}/ccache`,
      CCACHE_SECONDARY_STORAGE: `${url}/ccache`,
    };
    const run = (...command: string[]) => runEngineCommand(command, { environment, folder });
    for (const name of SOURCES) {
      writeFileSync(join(folder, `${name}.c`), `int ${name}(void) { return 1; }\n`);
      await run('ccache', 'gcc', '-c', `${name}.c`, '-o', `${name}.o`);
    }
    hits.push(/^ {2}Hits: +(\d+)/m.exec(await run('ccache', '-s'))?.[1] ?? '');
  }
  expect(hits).toEqual(['0', `${SOURCES.length}`]);
});

test('Turborepo builds nothing in a second folder', async () => {
  const built: string[] = [];
  for (const machine of ['turbo-one', 'turbo-two']) {
    const folder = commands.fresh(machine);
    mkdirSync(join(folder, 'packages', 'a'), { recursive: true });
    const write = (name: string, value: object) => writeFileSync(join(folder, name), JSON.stringify(value));
    const scripts = { build: 'mkdir dist && date +%s%N > dist/out' };
    write('package.json', { packageManager: 'npm@10.0.0', workspaces: ['packages/*'] });
    write('turbo.json', { tasks: { build: { outputs: ['dist/**'] } } });
    write('packages/a/package.json', { name: 'a', version: '1.0.0', scripts });
    const environment = {
      HOME: folder,
      TURBO_API: door.url.slice(0, -1),
      TURBO_TOKEN: door.password,
      TURBO_TEAM: 'web',
      TURBO_TELEMETRY_DISABLED: '1',
      TURBO_NO_UPDATE_NOTIFIER: '1',
    };
    const turbo = [join(ROOT, 'node_modules', '.bin', 'turbo'), 'run', 'build', '--no-daemon'];
    await runEngineCommand(turbo, { environment, folder });
    built.push(readFileSync(join(folder, 'packages', 'a', 'dist', 'out'), 'utf8'));
  }
  expect(built[1]).toBe(built[0] ?? '');
});

test('git-lfs pushes, clones and checks, and 13 bytes more cost some chunks', async () => {
  const folder = commands.fresh('lfs');
  mkdirSync(folder);
  const environment = {
    HOME: folder,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    ...{ GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@b.test' },
    ...{ GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@b.test' },
  };
  const git = (where: string, ...args: string[]) =>
    runEngineCommand(['git', ...args], { environment, folder: join(folder, where) });
  const lfs = `lfs.url=${url}/lfs/info/lfs`;
  await git('', 'lfs', 'install', '--skip-repo');
  await git('', 'init', '--quiet', '--bare', 'origin');
  await git('', 'init', '--quiet', '--initial-branch=main', 'work');
  const work = join(folder, 'work');
  const content = new Uint8Array(30_000_000);
  for (let at = 0; at < content.length; at += 65_536)
    crypto.getRandomValues(content.subarray(at, at + 65_536));
  const commit = async (bytes: Uint8Array): Promise<number> => {
    writeFileSync(join(work, 'large.bin'), bytes);
    await git('work', 'add', '--all');
    await git('work', 'commit', '--quiet', '--message', 'more');
    await git('work', '-c', lfs, 'push', '--quiet', '../origin', 'main');
    return JSON.parse(await commands.runWell(SPACE, 'usage', '--json')).readyContentBytes;
  };
  await git('work', 'lfs', 'track', '*.bin');
  const before = await commit(content);
  const inserted = Buffer.concat([
    content.subarray(0, 1_000_000),
    Buffer.from('thirteen more'),
    content.subarray(1_000_000),
  ]);
  expect((await commit(inserted)) - before).toBeLessThanOrEqual(3 * 1024 * 1024);
  await git('', '-c', lfs, 'clone', '--quiet', '-c', lfs, '--branch=main', 'origin', 'clone');
  expect(readFileSync(join(folder, 'clone', 'large.bin')).equals(inserted)).toBe(true);
  expect(await git('clone', '-c', lfs, 'lfs', 'fsck')).toContain('Git LFS fsck OK');
});
