/** How the process behind `holdfast` begins: `bin/holdfast` finds a runtime and tells it its variables. */
import { afterAll, describe, expect, test } from 'bun:test';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { planRuntimeSettings } from '../packages/cli/runtime-settings.ts';
import { CHECKOUT_HOLDFAST } from './support/holdfast-command.ts';
import { ROOT, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const folder = makeTempFolder('start-script');
afterAll(() => folder.remove());

const OWN = 'node_modules/bun/bin/bun.exe';

/** A package whose name is `name`, with the launcher and without a runtime; returns its folder. */
function installed(name: string): string {
  const root = join(folder.path, name, 'inner', 'node_modules', 'holdfast');
  mkdirSync(join(root, 'bin'), { recursive: true });
  mkdirSync(join(root, 'lib'));
  copyFileSync(join(ROOT, 'bin', 'holdfast'), join(root, 'bin', 'holdfast'));
  writeFileSync(join(root, 'lib', 'start.js'), '');
  return root;
}

/** A runtime that runs `script` of a shell. */
function placeRuntime(path: string, script: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
}

const SAY_WORDS = `printf '%s|' "$0" "$@"`;

describe('settings of the runtime', () => {
  const S3 = 's3://bucket?endpoint=http://127.0.0.1:1';
  const FTL = { BUN_JSC_thresholdForFTLOptimizeAfterWarmUp: '1000000' };
  const serving = (kept: string): Record<string, string> => ({
    ...FTL,
    MIMALLOC_PURGE_DELAY: kept,
    MIMALLOC_PURGE_HOLES_MIN_INTERVAL: kept,
    UV_THREADPOOL_SIZE: '8',
  });

  test.each<[string, readonly string[], Readonly<Record<string, string>>, Record<string, string>]>([
    ['serve', ['serve'], {}, serving('1000')],
    ['serve with bytes in S3, by a flag', ['serve', '--content', S3], {}, serving('60000')],
    ['serve with bytes in S3, by a flag in one word', ['serve', `--content=${S3}`], {}, serving('60000')],
    ['serve with bytes in S3, by a variable', ['serve'], { HOLDFAST_CONTENT: S3 }, serving('60000')],
    ['another command', ['app', 'list'], { HOLDFAST_CONTENT: S3 }, FTL],
    ['no command', [], { HOLDFAST_CONTENT: S3 }, FTL],
    [
      'serve, partly set by its user',
      ['serve'],
      { ...serving('5'), UV_THREADPOOL_SIZE: '' },
      { UV_THREADPOOL_SIZE: '8' },
    ],
    ['serve, started with them', ['serve'], serving('1000'), {}],
  ])('%s', (_, args, env, settings) => {
    expect(planRuntimeSettings(args, env)).toEqual(settings);
  });

  const COMMANDS = ['push', 'pull', 'gateway', 'mount', 'mcp', 'serve', 'app', undefined];
  const CONTENTS = [{}, { HOLDFAST_CONTENT: S3 }, { MIMALLOC_PURGE_DELAY: '', UV_THREADPOOL_SIZE: '5' }];
  test.each(COMMANDS.flatMap((command) => CONTENTS.map((given) => ({ command, given }))))(
    'are set by bin/holdfast: $command with $given',
    ({ command, given }) => {
      const root = installed(`settings-${command}-${Object.keys(given).length}`);
      placeRuntime(join(root, OWN), 'env');
      const env = { PATH: process.env.PATH ?? '', HOME: '/', ...given };
      const args = command === undefined ? [] : [command, 'a b'];
      const { stdout } = Bun.spawnSync([join(root, 'bin', 'holdfast'), ...args], { env });
      const variables = stdout.toString().trim().split('\n');
      const seen = Object.fromEntries(variables.map((line) => line.split(/=(.*)/s).slice(0, 2)));
      expect(seen).toMatchObject({ ...env, ...planRuntimeSettings(args, env) });
      const isSet = (name: string): boolean => /^(?:BUN|MIMALLOC|UV)_/.test(name) && !(name in given);
      const wanted = Object.keys(planRuntimeSettings(args, {}));
      expect(Object.keys(seen).filter((name) => isSet(name) && !wanted.includes(name))).toEqual([]);
    },
  );

  test('reach the started process, and those of its user are kept', async () => {
    const environment = { UV_THREADPOOL_SIZE: '5' };
    const server = await startServer({
      program: CHECKOUT_HOLDFAST,
      data: join(folder.path, 'data'),
      environment,
    });
    const variables = readFileSync(`/proc/${server.pid}/environ`, 'utf8').split('\0');
    expect(await server.end('SIGTERM')).toBe(0);
    for (const [name, value] of Object.entries({ ...serving('1000'), ...environment })) {
      expect(variables.filter((variable) => variable.startsWith(`${name}=`))).toEqual([`${name}=${value}`]);
    }
  });
});

describe('bin/holdfast in an installed package', () => {
  const run = (script: string) => {
    const { PATH = '' } = process.env;
    const done = Bun.spawnSync([script, 'a', 'b c'], { env: { PATH } });
    return { code: done.exitCode, out: done.stdout.toString(), err: done.stderr.toString() };
  };

  test.each<[string, string]>([
    ['in the package itself, as of a global install', OWN],
    ['beside it, as of an install in a project', '../bun/bin/bun.exe'],
    ['further up, as of a workspace', '../../../node_modules/bun/bin/bun.exe'],
    [
      'in the package of the platform, where no install script was run',
      'node_modules/@oven/bun-linux-x64/bin/bun',
    ],
  ])('finds the runtime %s', (name, place) => {
    const root = installed(name);
    const runtime = join(root, place);
    if (place.includes('@oven')) placeRuntime(join(root, OWN), SAY_WORDS);
    placeRuntime(runtime, SAY_WORDS);
    const link = join(folder.path, `${name}.link`);
    symlinkSync(join(root, 'bin', 'holdfast'), link);
    const own = [`--config=${root}/bin/bunfig.toml`, `--tsconfig-override=${root}/bin/tsconfig.json`];
    const start = `${root}/lib/start.js`;
    const words = [runtime, '--no-env-file', '--no-install', ...own, start, 'a', 'b c'];
    expect(run(link)).toEqual({ code: 0, out: words.map((word) => `${word}|`).join(''), err: '' });
  });

  test('says so if there is no runtime', () => {
    const { code, out, err } = run(join(installed('none'), 'bin', 'holdfast'));
    expect([code, out, err.trim().split('\n').length]).toEqual([1, '', 1]);
    expect(err).toContain('the npm package bun, is not installed');
  });
});
