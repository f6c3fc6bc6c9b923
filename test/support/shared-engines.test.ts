/** The engines that each file of a run needs, and the end of a shared engine with the process that asked for it. */
import { expect, test } from 'bun:test';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { SQL } from 'bun';
import { version } from '../../package.json' with { type: 'json' };
import { findNeededEngines } from '../../tools/shared-engines.mjs';
import { ownEngineFolder } from './engine-process.ts';
import { BUILT_HOLDFAST_VARIABLE } from './holdfast-command.ts';
import { SHARED_POSTGRES_VARIABLE } from './postgres-server.ts';
import { findDescendants, ROOT } from './server-process.ts';

const KEEPER = join(ROOT, 'test', 'support', 'shared-engines.ts');
/** Only ends what hangs. */
const GONE_MS_MAX = 180_000;

test('a test file needs the engines it imports, itself or through others', () => {
  const find = (file: string): string[] => findNeededEngines(ROOT, join(...file.split('/'))).sort();
  expect(find('test/cluster-races.test.ts')).toEqual(['ceph', 'holdfast', 'postgres']);
  expect(find('test/model/scaleout.test.ts')).toEqual(['ceph', 'holdfast', 'postgres']);
  expect(find('test/support/database-clock.test.ts')).toEqual(['postgres']);
  expect(find('test/support/ceph-server.test.ts')).toEqual(['ceph']);
  expect(find('test/browser.test.ts')).toEqual(['chromium', 'holdfast']);
  expect(find('test/crash.test.ts')).toEqual(['holdfast']);
  expect(find('packages/cli/commands/key.test.ts')).toEqual(['holdfast']);
  expect(find('test/model/embedded.test.ts')).toEqual([]);
});

async function untilGone(pids: readonly number[]): Promise<void> {
  const isThere = (pid: number): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  const deadline = Date.now() + GONE_MS_MAX;
  while (pids.some(isThere) && Date.now() < deadline) await Bun.sleep(20);
  expect(pids.filter(isThere)).toEqual([]);
}

for (const how of ['its input ends', 'it is killed'] as const) {
  test(`the shared PostgreSQL ends when ${how}`, async () => {
    const keeper = Bun.spawn([process.execPath, KEEPER, 'postgres'], { stdin: 'pipe', stdout: 'pipe' });
    const lines = keeper.stdout.pipeThrough(new TextDecoderStream()).getReader();
    const url = JSON.parse((await lines.read()).value ?? '')[SHARED_POSTGRES_VARIABLE];
    {
      await using sql = new SQL(url, { max: 1 });
      expect((await sql`SELECT 1 AS one`)[0].one).toBe(1);
    }
    const processes = findDescendants(keeper.pid);
    expect(processes.length).toBeGreaterThan(3);
    if (how === 'it is killed') keeper.kill('SIGKILL');
    else keeper.stdin.end();
    await keeper.exited;
    await untilGone(processes);
  }, 300_000);
}

test('the shared holdfast is the executable of these sources, and goes when its input ends', async () => {
  const keeper = Bun.spawn([process.execPath, KEEPER, 'holdfast'], { stdin: 'pipe', stdout: 'pipe' });
  const lines = keeper.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const program = JSON.parse((await lines.read()).value ?? '')[BUILT_HOLDFAST_VARIABLE];
  expect(Bun.spawnSync([program, '--version']).stdout.toString()).toBe(`${version}\n`);
  keeper.stdin.end();
  expect([await keeper.exited, existsSync(dirname(program))]).toEqual([0, false]);
}, 300_000);

test('the next start removes what a killed process left in the temporary folder', () => {
  const prefix = join(tmpdir(), `hf-owner-test-${process.pid}-`);
  const [dead, living, other] = [1, 2, 3].map((name) => `${prefix}${name}`) as [string, string, string];
  try {
    for (const path of [dead, living, other]) mkdirSync(path);
    const child = Bun.spawnSync(['true']);
    writeFileSync(join(dead, 'owner'), String(child.pid));
    writeFileSync(join(living, 'owner'), String(process.ppid));
    const own = `${prefix}own`;
    mkdirSync(own);
    ownEngineFolder(own, prefix);
    expect([dead, living, other, own].map((path) => existsSync(path))).toEqual([false, true, true, true]);
  } finally {
    for (const name of ['1', '2', '3', 'own']) rmSync(`${prefix}${name}`, { recursive: true, force: true });
  }
});
