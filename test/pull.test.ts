/** Trees go into a real server by the command line, and come back. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  closeSync,
  cpSync,
  existsSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { CHUNK_BYTES_MAX } from '@holdfast/client/internal';
import { readStanding } from '../packages/files/test/pull-fixture.ts';
import { directory, file, writePlan } from './support/disk-trees.ts';
import { ByteSpoiler } from './support/embedded-files.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { readPlace } from './support/read-place.ts';
import { ROOT, readResidentBytes, runHoldfast } from './support/server-process.ts';
import { startTcpProxy } from './support/tcp-proxy.ts';
import { sampleTree, TreeCommands } from './support/tree-commands.ts';

const MIB = 1024 * 1024;
const KILLS = 10;
const KILL_ROUNDS_MAX = 60;
const MEMORY_BYTES_MAX = 200 * MIB;
/** More than a pull may hold: what piles up shows before its end. */
const LARGE_BYTES = 256 * MIB;

let commands: TreeCommands;

beforeAll(async () => {
  commands = await TreeCommands.start('pull');
});
afterAll(() => commands.remove());

describe('there and back', () => {
  test('brings a tree with entries of every kind back', async () => {
    const { root, source } = await commands.pushPlan('home', sampleTree);
    const target = commands.fresh();
    const { stdout, stderr } = await commands.run('home', 'pull', root, target);
    expect(stdout).toBe('');
    expect(stderr).toContain('6 files and 1 link are there; wrote 6 files and 1 link, ');
    expect(readStanding(target)).toEqual(readStanding(source));
    expect(await commands.push('home', target)).toBe(root);
    const again = JSON.parse(await commands.runWell('home', 'pull', root, target, '--json'));
    expect(again).toMatchObject({
      hash: root,
      files: 6,
      links: 1,
      folders: 4,
      writtenFiles: 0,
      writtenLinks: 0,
    });
  });

  test('times that were recorded come back to the nanosecond', async () => {
    const source = commands.fresh('source');
    writePlan(source, sampleTree);
    for (const [name, time] of Object.entries({
      'README.md': '2001-02-03T04:05:06.123456789Z',
      'src/deep': '1965-01-01T00:00:00.000000001Z',
      link: '2030-01-01T00:00:00.999999999Z',
    })) {
      const touched = Bun.spawnSync(['touch', '--no-dereference', '--date', time, join(source, name)]);
      expect(touched.exitCode).toBe(0);
    }
    const root = (await commands.runWell('times', 'push', source, '--mtime', '--quiet')).trimEnd();
    const target = commands.fresh();
    await commands.runWell('times', 'pull', root, target, '--quiet');
    expect((await commands.runWell('times', 'push', target, '--mtime', '--quiet')).trimEnd()).toBe(root);
  });

  test('what stands there with another time gets that of the tree, a file as the root too', async () => {
    const source = commands.fresh('source');
    writePlan(source, sampleTree);
    const root = (await commands.runWell('times', 'push', source, '--mtime', '--quiet')).trimEnd();
    const [target, single] = [commands.fresh(), commands.fresh('README.md')];
    const pulls = [
      [root, target],
      [`${root}/README.md`, single],
    ] as const;
    for (const [tree, path] of pulls) await commands.runWell('times', 'pull', tree, path, '--quiet');
    const touched = [single, target, ...['README.md', 'link', 'src'].map((name) => join(target, name))];
    for (const path of touched) lutimesSync(path, 1, 1);
    for (const [tree, path] of pulls) {
      const again = JSON.parse(await commands.runWell('times', 'pull', tree, path, '--json'));
      expect(again).toMatchObject({ writtenFiles: 0, writtenLinks: 0, writtenBytes: 0 });
    }
    expect((await commands.runWell('times', 'push', target, '--mtime', '--quiet')).trimEnd()).toBe(root);
    const timeOf = (path: string) => lstatSync(path, { bigint: true }).mtimeNs;
    expect(timeOf(single)).toBe(timeOf(join(source, 'README.md')));
  });

  test('a root that is a file is written to DIR itself', async () => {
    const { root, source } = await commands.pushPlan('home', file(400_000, 9));
    const target = commands.fresh('copy.bin');
    await commands.runWell('home', 'pull', root, target, '--quiet');
    expect(readStanding(target)).toEqual(readStanding(source));
  });

  test('a conflict stops a pull before it writes, unless --force or --range is given', async () => {
    const { root, source } = await commands.pushPlan('home', sampleTree);
    const target = commands.fresh();
    mkdirSync(target);
    writeFileSync(join(target, 'large'), 'mine');
    expect(await commands.runBadly(1, 'home', 'pull', root, target)).toMatch(
      /^holdfast: large: another file .*--force/,
    );
    expect(readdirSync(target)).toEqual(['large']);
    await commands.runWell('home', 'pull', root, target, '--range', 'src/main.ts', 'README.md');
    expect(readdirSync(target).toSorted()).toEqual(['README.md', 'large', 'src']);
    await commands.runWell('home', 'pull', root, target, '--force');
    expect(readStanding(target)).toEqual(readStanding(source));
  });

  test('a --range that does not exist leaves nothing behind, and one file is counted as one', async () => {
    const { root } = await commands.pushPlan('home', sampleTree);
    const target = commands.fresh();
    const line = await commands.runBadly(1, 'home', 'pull', root, target, '--range', 'README.md', 'src/none');
    expect(line).toEndWith(`${root}/src/none does not exist in this tree`);
    expect(existsSync(target)).toBe(false);
    const { stderr } = await commands.run('home', 'pull', root, target, '--range', 'README.md');
    expect(stderr).toContain('1 file is there; wrote 1 file, 2.0 KiB\n');
  });

  test('a real tree of more than 10,000 files, pulled half and whole, and from a Space that had half of it', async () => {
    const source = commands.fresh('packages');
    const modules = join(ROOT, 'node_modules');
    const names = readdirSync(modules).filter((name) => !name.startsWith('.') && name !== '@holdfast');
    let files = 0;
    for (const name of names) {
      if (files > 5_200) break;
      const before = countFiles(join(modules, name));
      if (before === 0 || before > 3_000) continue;
      cpSync(join(modules, name), join(source, 'a', name), { recursive: true, verbatimSymlinks: true });
      files += before;
    }
    cpSync(join(source, 'a'), join(source, 'b'), { recursive: true, verbatimSymlinks: true });
    expect(countFiles(source)).toBeGreaterThan(10_000);
    const root = await commands.push('real', source);
    const target = commands.fresh();
    await commands.runWell('real', 'pull', root, target, '--range', 'a', '--quiet');
    rmSync(join(target, 'a', readdirSync(join(target, 'a'))[0] as string), { recursive: true });
    const peak = await runAndWatch('real', 'pull', root, target, '--quiet');
    expect(Bun.spawnSync(['diff', '-r', '--no-dereference', source, target]).exitCode).toBe(0);
    expect(peak).toBeLessThan(MEMORY_BYTES_MAX);
    // Reads the same bytes in half the time: what is not collected piles up faster.
    expect(await runAndWatch('real', 'verify', root, '--quiet')).toBeLessThan(MEMORY_BYTES_MAX);
    const part = join(source, 'a');
    await expectFromHalf(part, await commands.push('real', part));
  }, 900_000);
});

/** Pushes half of `source`, then all of it, and pulls that: from a Space that had half, the same tree comes back. */
async function expectFromHalf(source: string, root: string): Promise<void> {
  const names = readdirSync(source);
  const half = commands.fresh('half');
  for (const name of names.slice(0, names.length / 2)) {
    cpSync(join(source, name), join(half, name), { recursive: true, verbatimSymlinks: true });
  }
  await commands.push('half', half);
  expect(await commands.push('half', source)).toBe(root);
  const target = commands.fresh();
  await commands.runWell('half', 'pull', root, target, '--quiet');
  expect(Bun.spawnSync(['diff', '-r', '--no-dereference', source, target]).exitCode).toBe(0);
}

function countFiles(path: string): number {
  const found = Bun.spawnSync(['find', path, '-type', 'f', '-printf', 'x']);
  return found.stdout.length;
}

/** Runs a command and samples the memory of its process; the most it had, bytes. */
async function runAndWatch(spaceId: string, ...args: string[]): Promise<number> {
  const child = Bun.spawn([HOLDFAST, ...args], {
    env: { PATH: process.env.PATH, ...commands.environment(spaceId) },
    stdout: 'ignore',
    stderr: 'inherit',
  });
  let peak = 0;
  while (child.exitCode === null && child.signalCode === null) {
    try {
      peak = Math.max(peak, readResidentBytes(child.pid));
    } catch {
      // It ended between the look and the reading.
    }
    await Bun.sleep(20);
  }
  expect(await child.exited).toBe(0);
  return peak;
}

describe('memory', () => {
  test('a file of 256 MiB of the largest chunks, pulled, bundled and imported', async () => {
    const source = commands.fresh('zeros');
    // Zeros are never cut before the maximum, so every chunk has the largest size. A number at its start makes each unique.
    expect(Bun.spawnSync(['truncate', '--size', String(LARGE_BYTES), source]).exitCode).toBe(0);
    const opened = openSync(source, 'r+');
    for (let at = 0; at < LARGE_BYTES; at += CHUNK_BYTES_MAX) writeSync(opened, `${at}`, at);
    closeSync(opened);
    const root = await commands.push('zeros', source);
    const target = commands.fresh();
    expect(await runAndWatch('zeros', 'pull', root, target, '--quiet')).toBeLessThan(MEMORY_BYTES_MAX);
    expect(Bun.spawnSync(['cmp', source, target]).exitCode).toBe(0);
    rmSync(target);
    const bundle = commands.fresh('bundle');
    const made = await runAndWatch('zeros', 'bundle', 'create', root, '--out', bundle, '--quiet');
    expect(made).toBeLessThan(MEMORY_BYTES_MAX);
    const imported = await runAndWatch('imported', 'bundle', 'import', bundle, '--quiet');
    expect(imported).toBeLessThan(MEMORY_BYTES_MAX);
    rmSync(bundle);
  }, 300_000);
});

describe('killed at any moment', () => {
  test('ten times, then one clean run brings the whole tree and leaves nothing else', async () => {
    const many = Array.from({ length: 800 }, (_, i) => [`f${i}`, file(500 + i * 13, i)] as const);
    const plan = directory({
      many: directory(Object.fromEntries(many)),
      'large-1': file(24_000_000, 1),
      'large-2': file(9_000_000, 2),
    });
    const { root, source } = await commands.pushPlan('killed', plan);
    const target = commands.fresh();
    let killed = 0;
    let delayMs = 200;
    for (let round = 0; round < KILL_ROUNDS_MAX && killed < KILLS; round += 1) {
      const child = Bun.spawn([HOLDFAST, 'pull', root, target, '--quiet'], {
        env: { PATH: process.env.PATH, ...commands.environment('killed') },
        stdout: 'ignore',
        stderr: 'pipe',
      });
      await Promise.race([Bun.sleep(delayMs * (0.5 + Math.random())), child.exited]);
      child.kill('SIGKILL');
      await child.exited;
      if (child.signalCode === 'SIGKILL') killed += 1;
      else expect([child.exitCode, await new Response(child.stderr).text()]).toEqual([0, '']);
      // At any speed of the machine: somewhere between the start and the end.
      delayMs *= child.signalCode === 'SIGKILL' ? 1.2 : 0.6;
      if (!existsSync(target)) continue;
      expectOnlyWhole(target, source);
      // Something is left to do for the next one.
      for (const name of ['large-2', 'many/f3', 'many/f700']) rmSync(join(target, name), { force: true });
    }
    expect(killed).toBe(KILLS);
    await commands.runWell('killed', 'pull', root, target, '--quiet');
    expect(readStanding(target)).toEqual(readStanding(source));
  }, 300_000);
});

/** Every file that has its name has all its bytes. */
function expectOnlyWhole(target: string, source: string): void {
  for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.part') || !Bun.file(join(target, name)).size) continue;
    const [here, there] = [join(target, name), join(source, name)];
    if (statSync(here).isDirectory()) continue;
    expect([name, Buffer.compare(readFileSync(here), readFileSync(there))]).toEqual([name, 0]);
  }
}

describe('a network that fails', () => {
  test('is waited for, and the same pull succeeds', async () => {
    const entries = Array.from({ length: 300 }, (_, i) => [`f${i}`, file(2_000 + i, i)] as const);
    const plan = directory({ ...Object.fromEntries(entries), large: file(20_000_000, 8) });
    const { root, source } = await commands.pushPlan('network', plan);
    const proxy = await startTcpProxy({ port: commands.running.server.port });
    try {
      const target = commands.fresh();
      proxy.setMode({ kind: 'slow', bytesPerSecond: 2_000_000, delayMs: 1 });
      const pulling = runHoldfast(['pull', root, target], {
        environment: commands.environment('network', `http://${proxy.address}`),
      });
      for (const kind of ['reset', 'pass', 'reset'] as const) {
        await Bun.sleep(700);
        proxy.setMode({ kind });
      }
      await Bun.sleep(1_500);
      proxy.setMode({ kind: 'pass' });
      expect(await pulling).toMatchObject({ exitCode: 0, stdout: '' });
      expect(readStanding(target)).toEqual(readStanding(source));
    } finally {
      await proxy.close();
    }
  }, 300_000);

  test('that is away ends a short command soon, and the error says what to do', async () => {
    const dead = await startTcpProxy({ port: commands.running.server.port });
    const environment = commands.environment('network', `http://${dead.address}`);
    await dead.close();
    const { exitCode, stderr } = await runHoldfast(['ls', 'a'.repeat(64)], { environment });
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringMatching(/^holdfast: .*check the address and that the server runs/),
    ]);
  });
});

describe('a server that lies', () => {
  test('makes no file with wrong bytes', async () => {
    const { root, source } = await commands.pushPlan('lies', sampleTree);
    let lies = 0;
    const liar = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch(request) {
        const url = new URL(request.url);
        const answer = await fetch(`${commands.running.server.url}${url.pathname}`, {
          headers: request.headers,
        });
        if (!url.pathname.endsWith('/content')) return answer;
        const bytes = await answer.bytes();
        // Only large contents are changed: the walk itself works, and every second chunk is wrong.
        if (bytes.length > 50_000 && ++lies % 2 === 0) bytes[bytes.length - 7]! ^= 1;
        return new Response(bytes, { headers: { 'content-type': answer.headers.get('content-type') ?? '' } });
      },
    });
    try {
      const target = commands.fresh();
      const result = await runHoldfast(['pull', root, target, '--quiet'], {
        environment: commands.environment('lies', liar.url.origin),
      });
      expect(result.exitCode).toBe(1);
      expect(result.stderr).toMatch(
        /^holdfast: (large|src\/deep\/er\/x\.txt): [0-9a-f]{64}: what came hashes to/,
      );
      expect(lies).toBeGreaterThan(1);
      expectOnlyWhole(target, source);
      await commands.runWell('lies', 'pull', root, target, '--quiet');
      expect(readStanding(target)).toEqual(readStanding(source));
    } finally {
      await liar.stop(true);
    }
  });
});

describe('a node whose bytes are lost', () => {
  test('is named with its path by pull and verify, and healed by push --check', async () => {
    const { root, source } = await commands.pushPlan('rotten', sampleTree);
    const listed = JSON.parse(await commands.runWell('rotten', 'ls', `${root}/src`, '--json'));
    const { hash } = listed.entries.find(({ name }: { name: string }) => name === 'main.ts');
    new ByteSpoiler(commands.running.data).spoil(readPlace(commands.running.data, hash, 'rotten'), 'lost');
    const target = commands.fresh();
    const line = await commands.runBadly(1, 'rotten', 'pull', root, target, '--quiet');
    expect(line).toMatch(/^holdfast: src\/main\.ts: [0-9a-f]{64}: .* lost .* push --check/);
    expect(line).toContain(hash);
    expect(await commands.runBadly(1, 'rotten', 'cat', `${root}/src/main.ts`)).toContain('push --check');

    const verified = await commands.run('rotten', 'verify', root);
    expect([verified.exitCode, verified.stdout]).toEqual([
      1,
      expect.stringContaining(`src/main.ts: ${hash}`),
    ]);
    expect(verified.stdout.trimEnd().split('\n')).toHaveLength(1);
    const json = await commands.run('rotten', 'verify', root, '--json', '--quiet');
    expect([json.exitCode, JSON.parse(json.stdout)]).toEqual([
      1,
      expect.objectContaining({
        faultCount: 1,
        faults: [expect.objectContaining({ path: 'src/main.ts', hash })],
      }),
    ]);

    await commands.runWell('rotten', 'push', source, '--check', '--quiet');
    expect((await commands.run('rotten', 'verify', root, '--quiet')).exitCode).toBe(0);
    await commands.runWell('rotten', 'pull', root, target, '--quiet');
    expect(readStanding(target)).toEqual(readStanding(source));
  });
});
