/** systemd understands every line of the unit, and finds it hardened. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './support/server-process.ts';
import { ensureSystemdAnalyze, runSystemdAnalyze } from './support/systemd-analyze.ts';
import { makeTempFolder } from './support/temp-folder.ts';

/** Tenths; 100 is a unit without any hardening. */
const EXPOSURE_MAX = 20;
/** The time that the server gives requests and stores to end beyond the 10 s of docs/operations.md. */
const DRAIN_SECONDS_MAX = 15;

const folder = makeTempFolder('systemd');
const unit = join(folder.path, 'holdfast.service');
const text = readFileSync(join(ROOT, 'deploy', 'systemd', 'holdfast.service'), 'utf8');

beforeAll(async () => {
  await ensureSystemdAnalyze();
  // The program has to be where the unit says.
  writeFileSync(unit, text.replace('ExecStart=/usr/local/bin/holdfast', `ExecStart=${ROOT}/bin/holdfast`));
});
afterAll(() => folder.remove());

const settingOf = (name: string): string | undefined => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1];

test('systemd understands every line', () => {
  expect(runSystemdAnalyze(['verify', unit])).toEqual({ exitCode: 0, stdout: '', stderr: '' });
});

test('systemd finds the service little exposed', () => {
  const bounds = ['--offline=true', `--threshold=${EXPOSURE_MAX}`];
  const { exitCode, stdout } = runSystemdAnalyze(['security', ...bounds, unit]);
  expect([exitCode, stdout.split('\n').at(-2)]).toEqual([0, expect.stringContaining('OK')]);
});

test('the server has its time to drain, and is started again unless it was used wrongly', () => {
  expect(Number(settingOf('TimeoutStopSec'))).toBeGreaterThan(DRAIN_SECONDS_MAX);
  expect([settingOf('Restart'), settingOf('RestartPreventExitStatus')]).toEqual(['on-failure', '2']);
});
