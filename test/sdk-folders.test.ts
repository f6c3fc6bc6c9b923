/** Folders of a real disk through the installed SDK, on Node and on Bun: the trees of the command line, byte for byte. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { resultOf } from './support/command-result.ts';
import { buildPlan, directory, file, type Plan, writePlan } from './support/disk-trees.ts';
import { installSdk } from './support/installed-sdk.ts';
import { copyRealFolder } from './support/real-trees.ts';
import { makeRandom } from './support/seeded-random.ts';
import { ROOT } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { TreeCommands } from './support/tree-commands.ts';

const MINUTE_MS = 60_000;
const folder = makeTempFolder('sdk-folders');
let commands: TreeCommands;

/** Names and targets that are no UTF-8, links, executables, empty folders, a file of several chunks. */
const ODD: Readonly<Record<string, Plan>> = {
  '\xff\xfe': file(10, 1),
  'gr\xc3\xbc\xc3\x9fe': file(20, 2),
  'not\xc3(utf8': directory({ '\xe9': { kind: 'symlink', target: '\xff/nowhere' } }),
  empty: directory(),
  'empty file': file(0),
  large: file(5_000_000, 3),
  run: { kind: 'file', size: 30, seed: 4, isExecutable: true },
  up: { kind: 'symlink', target: '..' },
};
const IGNORED = { 'debug.log': file(40, 5), build: directory({ out: file(50, 6) }) };

/** Pushes and pulls each `[source, target]` of its arguments, and prints what came of it. */
const ROUND_TRIPS = `
import { createClient } from '@holdfast/client';
import { pullFolder, pushFolder } from '@holdfast/client/node';
const { HOLDFAST_URL: baseUrl, HOLDFAST_APP: appId, HOLDFAST_SPACE: spaceId, HOLDFAST_TOKEN: token } = process.env;
const client = createClient({ baseUrl, appId, spaceId, token });
const results = [];
for (const [source, target] of JSON.parse(process.argv[2])) {
  const pushed = await pushFolder(client, source);
  const again = await pushFolder(client, source);
  const pulled = await pullFolder(client, pushed.root, target);
  results.push({
    root: pushed.root,
    isWhole: pulled.bytes === pushed.bytes && pulled.files + pulled.folders + pulled.links === pushed.entryCount - 1,
    again: [again.root === pushed.root, again.uploadedNodes],
    pulledAgain: (await pullFolder(client, pushed.root, target)).writtenFiles,
  });
}
console.log(JSON.stringify(results));
`;

/** The SDK throws only errors that its doors export, and leaves nothing half done. */
const FAILURES = `
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, PullConflictError } from '@holdfast/client';
import { GivenPathError, pullFolder, pushFolder, ScanError } from '@holdfast/client/node';
const { HOLDFAST_URL: baseUrl, HOLDFAST_APP: appId, HOLDFAST_SPACE: spaceId, HOLDFAST_TOKEN: token } = process.env;
let requests = 0;
const client = createClient({ baseUrl, appId, spaceId, token, fetch: (url, init) => {
  requests += 1;
  return fetch(url, init);
} });
const failureOf = (promise) => promise.then(() => undefined, (error) => error);
const folder = mkdtempSync(join(process.argv[2], 'failures-'));
execFileSync('mkfifo', [join(folder, 'pipe')]);
const special = await failureOf(pushFolder(client, folder));
const sentForSpecial = requests;
rmSync(join(folder, 'pipe'));
for (let index = 0; index < 40; index += 1) writeFileSync(join(folder, 'file ' + index), 'content ' + index);
const aborting = new AbortController();
const aborted = failureOf(pushFolder(client, folder, { signal: aborting.signal }));
aborting.abort(new Error('enough'));
const { root, uploadedNodes } = await pushFolder(client, folder, { ignorePatterns: ['file 1*'], leaseDurationMs: 60_000 });
const target = join(folder, 'out');
await pullFolder(client, root, target, { paths: [[new TextEncoder().encode('file 2')]] });
writeFileSync(join(target, 'file 2'), 'mine');
const conflict = await failureOf(pullFolder(client, root, target));
await pullFolder(client, root, target, { force: true });
console.log(JSON.stringify({
  special: [special instanceof ScanError, special.message, sentForSpecial],
  aborted: (await aborted).message,
  uploadedNodes,
  conflict: [conflict instanceof PullConflictError, conflict.message.includes('file 2')],
  empty: (await failureOf(pushFolder(client, ''))) instanceof GivenPathError,
  missing: (await failureOf(pushFolder(client, join(folder, 'missing')))).code,
}));
`;

beforeAll(async () => {
  await installSdk(folder.path);
  writeFileSync(join(folder.path, 'round-trips.mjs'), ROUND_TRIPS);
  writeFileSync(join(folder.path, 'failures.mjs'), FAILURES);
  commands = await TreeCommands.start('sdk-folders');
}, 2 * MINUTE_MS);
afterAll(async () => {
  await commands?.remove();
  folder.remove();
});

async function runProgram(runtime: string, spaceId: string, program: string, argument: string) {
  const child = Bun.spawn([runtime, program, argument], {
    cwd: folder.path,
    env: { PATH: process.env.PATH, ...commands.environment(spaceId) },
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const { exitCode, stdout, stderr } = await resultOf(child);
  expect([exitCode, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

async function expectRoundTrips(runtime: string, spaceId: string, sources: readonly string[]): Promise<void> {
  const trips = sources.map((source) => [source, commands.fresh('pulled')] as const);
  const results = await runProgram(runtime, spaceId, 'round-trips.mjs', JSON.stringify(trips));
  const expected: unknown[] = [];
  for (const [source, target] of trips) {
    const root = await commands.push(`${spaceId} by command`, source);
    expect([target, await commands.push(`${spaceId} by command`, target)]).toEqual([target, root]);
    expected.push({ root, isWhole: true, again: [true, 0], pulledAgain: 0 });
  }
  expect(results).toEqual(expected);
}

/** A part of a real folder that nobody writes to: thousands of entries would take too long. */
function copyOf(source: string): string {
  const copy = commands.fresh('copy');
  copyRealFolder(source, copy, makeRandom(20260101));
  return copy;
}

/** The directory of the repository's own history, also of a work tree that has it elsewhere. */
function findHistory(): string {
  const common = execFileSync('git', ['rev-parse', '--path-format=absolute', '--git-common-dir'], {
    cwd: ROOT,
  });
  return common.toString().trim();
}

test.each(['node', process.execPath])(
  'a folder with everything odd, on %s',
  async (runtime) => {
    const source = commands.fresh('odd');
    writePlan(source, directory({ ...ODD, ...IGNORED, '.holdfastignore': file(0) }));
    writeFileSync(join(source, '.holdfastignore'), '.holdfastignore\n*.log\nbuild/\n');
    const spaceId = `odd ${runtime}`;
    await expectRoundTrips(runtime, spaceId, [source]);
    expect(await commands.push(spaceId, source)).toBe((await buildPlan(directory(ODD))).root);
  },
  2 * MINUTE_MS,
);

test(
  'real folders, on Node',
  async () => {
    const sources = ['/etc/ssl', copyOf(findHistory())];
    for (const source of sources) expect(readdirSync(source).length).toBeGreaterThan(0);
    await expectRoundTrips('node', 'real', sources);
  },
  4 * MINUTE_MS,
);

test('a file alone is written under the path itself', async () => {
  const [source, target] = [commands.fresh('alone'), commands.fresh('alone')];
  writeFileSync(source, 'alone');
  const [{ root }] = await runProgram('node', 'alone', 'round-trips.mjs', JSON.stringify([[source, target]]));
  expect(root).toBe(await commands.push('alone', source));
  expect(readFileSync(target, 'utf8')).toBe('alone');
});

test('failures are errors of the classes that the package exports', async () => {
  expect(await runProgram('node', 'failures', 'failures.mjs', folder.path)).toEqual({
    special: [true, expect.stringMatching(/^one entry cannot be stored: pipe \(named pipe\)$/), 0],
    aborted: 'enough',
    uploadedNodes: 30,
    conflict: [true, true],
    empty: true,
    missing: 'ENOENT',
  });
});
