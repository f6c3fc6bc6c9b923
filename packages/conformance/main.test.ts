/** The command line of the suite: exit codes, one line for what went wrong, reports. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Report } from './index.ts';
import { openTestServer, type TestServer } from './test/test-server-fixture.ts';

let server: TestServer;
let folder: string;
let identity: string[];

beforeAll(async () => {
  server = await openTestServer();
  folder = await mkdtemp(join(tmpdir(), 'holdfast-conformance-cli-'));
  const { appId, issuer, audience, key } = server.overSocket.identity;
  await Bun.write(join(folder, 'key.jwk'), JSON.stringify(key));
  await Bun.write(join(folder, 'public.jwk'), JSON.stringify({ ...key, d: undefined }));
  await Bun.write(join(folder, 'second.json'), JSON.stringify({ app: 'second' }));
  identity = ['--app', appId, '--issuer', issuer, '--audience', audience, '--key', join(folder, 'key.jwk')];
});

afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true, force: true });
});

async function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'main.ts'), ...args], {
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { code, stdout, stderr };
}

function at(baseUrl: string, ...args: string[]): string[] {
  return ['--base-url', baseUrl, ...identity, ...args];
}

test('passes: exit 0 and a closing line', async () => {
  const { code, stdout } = await run(
    ...at(server.overSocket.baseUrl, '--only', 'health', '--only', 'auth.missing'),
  );
  expect(stdout.trimEnd().split('\n').at(-1)).toMatch(/^5 passed, 0 failed, 0 not applicable \(/);
  expect(code).toBe(0);
});

test('fails: exit 1 and the broken clause', async () => {
  const wrongLimit = ['--max-node-bytes', '5000000', '--only', 'lease.over-limit'];
  const { code, stdout } = await run(...at(server.overSocket.baseUrl, ...wrongLimit));
  expect(stdout).toContain('✗ lease.over-limit');
  expect(stdout).toContain('breaks    The upload target: over the limit');
  expect(stdout).toMatch(/0 passed, 1 failed/);
  expect(code).toBe(1);
});

test('--json is the report', async () => {
  const { code, stdout } = await run(...at(server.overSocket.baseUrl, '--json', '--only', 'runGc: eligible'));
  const report = JSON.parse(stdout) as Report;
  expect(report.failed).toBe(0);
  expect(report.passed).toBeGreaterThan(0);
  expect(
    report.results.some((result) => result.outcome === 'not applicable' && result.reason?.includes('--slow')),
  ).toBe(true);
  expect(code).toBe(0);
});

test('--list needs no target', async () => {
  const { code, stdout } = await run('--list', '--only', 'gc.');
  expect(stdout).toContain('gc.cascade');
  expect(stdout).not.toContain('auth.');
  expect(code).toBe(0);
});

test('a target that is not there: exit 1 and one line', async () => {
  const { code, stderr } = await run(...at('http://127.0.0.1:1'));
  expect(stderr.trimEnd().split('\n')).toHaveLength(1);
  expect(stderr).toContain('conformance: ');
  expect(code).toBe(1);
});

test.each([
  ['no flags', []],
  ['an unknown flag', ['--nonsense']],
  ['a base URL that is none', ['--base-url', 'ftp://x']],
  ['a count that is none', ['--concurrency', '0']],
  ['a check that is none', ['--list', '--only', 'no such clause']],
])('%s: exit 2', async (_, args) => {
  const { code, stderr } = await run(...args);
  expect(stderr).not.toBe('');
  expect(code).toBe(2);
});

test('a key file that is no private key: exit 2', async () => {
  const url = server.overSocket.baseUrl;
  for (const file of ['public.jwk', 'absent.jwk', 'second.json']) {
    const { code, stderr } = await run(...at(url), '--key', join(folder, file));
    expect(stderr).toContain(file);
    expect(code).toBe(2);
  }
  const { code, stderr } = await run(...at(url), '--second', join(folder, 'second.json'));
  expect(stderr).toContain('has no "key"');
  expect(code).toBe(2);
});
