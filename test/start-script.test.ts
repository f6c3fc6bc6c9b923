/** What `bin/holdfast` sets for the runtime, which reads it once, when it starts: seen by a stand-in for the runtime. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const folder = makeTempFolder('start-script');
const script = join(folder.path, 'bin', 'holdfast');

beforeAll(() => {
  const runtimes = join(folder.path, 'node_modules', '.bin');
  mkdirSync(join(folder.path, 'bin'));
  mkdirSync(runtimes, { recursive: true });
  copyFileSync(join(ROOT, 'bin', 'holdfast'), script);
  writeFileSync(
    join(runtimes, 'bun'),
    `#!/bin/sh\necho "$BUN_JSC_thresholdForFTLOptimizeAfterWarmUp/$UV_THREADPOOL_SIZE/$MIMALLOC_PURGE_DELAY/$MIMALLOC_PURGE_HOLES_MIN_INTERVAL"\n`,
  );
  chmodSync(join(runtimes, 'bun'), 0o755);
});
afterAll(() => folder.remove());

function settingsOf(args: readonly string[], env: Readonly<Record<string, string>> = {}): string {
  const { PATH = '' } = process.env;
  const done = Bun.spawnSync([script, ...args], { env: { PATH, ...env } });
  expect(done.exitCode).toBe(0);
  return done.stdout.toString().trim();
}

describe('bin/holdfast', () => {
  const S3 = 's3://bucket?endpoint=http://127.0.0.1:1';
  test.each<[string, readonly string[], Readonly<Record<string, string>>, string]>([
    ['serve', ['serve'], {}, '1000000/8/1000/1000'],
    ['serve with bytes in S3, by a flag', ['serve', '--content', S3], {}, '1000000/8/60000/60000'],
    [
      'serve with bytes in S3, by a flag in one word',
      ['serve', `--content=${S3}`],
      {},
      '1000000/8/60000/60000',
    ],
    ['serve with bytes in S3, by a variable', ['serve'], { HOLDFAST_CONTENT: S3 }, '1000000/8/60000/60000'],
    ['another command', ['app', 'list'], { HOLDFAST_CONTENT: S3 }, '1000000///'],
    ['no command', [], { HOLDFAST_CONTENT: S3 }, '1000000///'],
  ])('%s', (_, args, env, settings) => {
    expect(settingsOf(args, env)).toBe(settings);
  });

  test('takes what its user has set', () => {
    const env = {
      HOLDFAST_CONTENT: S3,
      BUN_JSC_thresholdForFTLOptimizeAfterWarmUp: '3',
      UV_THREADPOOL_SIZE: '4',
      MIMALLOC_PURGE_DELAY: '5',
      MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '6',
    };
    expect(settingsOf(['serve'], env)).toBe('3/4/5/6');
  });
});
