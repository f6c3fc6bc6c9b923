/** Trees there and back through the command line and a real server, and what the commands that read them say. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readStanding } from '../packages/files/test/pull-world.ts';
import { seededBytes } from './support/canonical-node.ts';
import { directory, file, type Plan, writePlan } from './support/disk-trees.ts';
import { ByteSpoiler } from './support/embedded-files.ts';
import { findPlace } from './support/find-place.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { type CommandResult, ROOT, readResidentBytes, runHoldfast } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const MIB = 1024 * 1024;
const MEMORY_BYTES_MAX = 200 * MIB;

const folder = makeTempFolder('pull');
let running: RunningServer;
let count = 0;

beforeAll(async () => {
  running = await startFreshServer('pull-server');
});
afterAll(async () => {
  await running.remove();
  folder.remove();
});

function fresh(name = 'target'): string {
  count += 1;
  return join(folder.path, `${name}-${count}`);
}

function environment(spaceId: string, url = running.server.url): Record<string, string> {
  return {
    HOLDFAST_URL: url,
    HOLDFAST_APP: APP,
    HOLDFAST_SPACE: spaceId,
    HOLDFAST_TOKEN: running.issuer.token(spaceId),
    XDG_CACHE_HOME: join(folder.path, 'cache'),
  };
}

function run(spaceId: string, ...args: string[]): Promise<CommandResult> {
  return runHoldfast(args, { cwd: folder.path, environment: environment(spaceId) });
}

async function runWell(spaceId: string, ...args: string[]): Promise<string> {
  const result = await run(spaceId, ...args);
  if (result.exitCode !== 0) throw new Error(`holdfast ${args.join(' ')}: ${result.stderr}`);
  return result.stdout;
}

/** Fails with 1 or 2; the last line on stderr. */
async function runBadly(exitCode: number, spaceId: string, ...args: string[]): Promise<string> {
  const result = await run(spaceId, ...args);
  expect([result.exitCode, result.stderr.endsWith('\n')]).toEqual([exitCode, true]);
  const line = result.stderr.trimEnd().split('\n').at(-1) ?? '';
  expect(line).toStartWith('holdfast: ');
  return line;
}

async function push(spaceId: string, path: string): Promise<string> {
  return (await runWell(spaceId, 'push', path, '--quiet')).trimEnd();
}

async function pushPlan(spaceId: string, plan: Plan): Promise<{ root: string; source: string }> {
  const source = fresh('source');
  writePlan(source, plan);
  return { root: await push(spaceId, source), source };
}

const sample = directory({
  'README.md': file(2_000, 1),
  empty: directory(),
  large: file(5_000_000, 2),
  link: { kind: 'symlink', target: '../nowhere' },
  src: directory({
    'main.ts': { kind: 'file', size: 300, seed: 3, isExecutable: true },
    '\u001b[31mred\n': file(10, 4),
    '\u00ff\u00fe': file(11, 5),
    deep: directory({ er: directory({ 'x.txt': file(70_000, 6) }) }),
  }),
});

describe('there and back', () => {
  test('a tree with everything in it', async () => {
    const { root, source } = await pushPlan('home', sample);
    const target = fresh();
    const { stdout, stderr } = await run('home', 'pull', root, target);
    expect(stdout).toBe('');
    expect(stderr).toContain('6 files and 1 links are there');
    expect(readStanding(target)).toEqual(readStanding(source));
    expect(await push('home', target)).toBe(root);
    const again = JSON.parse(await runWell('home', 'pull', root, target, '--json'));
    expect(again).toMatchObject({ hash: root, files: 6, links: 1, folders: 4, writtenFiles: 0 });
  });

  test('a file root goes to DIR itself', async () => {
    const { root, source } = await pushPlan('home', file(400_000, 9));
    const target = fresh('copy.bin');
    await runWell('home', 'pull', root, target, '--quiet');
    expect(readStanding(target)).toEqual(readStanding(source));
  });

  test('a conflict stops it before it writes; --force and --path', async () => {
    const { root, source } = await pushPlan('home', sample);
    const target = fresh();
    mkdirSync(target);
    writeFileSync(join(target, 'large'), 'mine');
    expect(await runBadly(1, 'home', 'pull', root, target)).toMatch(
      /^holdfast: large: another file .*--force/,
    );
    expect(readdirSync(target)).toEqual(['large']);
    await runWell('home', 'pull', root, target, '--path', 'src/main.ts', 'README.md');
    expect(readdirSync(target).toSorted()).toEqual(['README.md', 'large', 'src']);
    await runWell('home', 'pull', root, target, '--force');
    expect(readStanding(target)).toEqual(readStanding(source));
  });

  test('a real tree of more than 10,000 files, pulled half and whole', async () => {
    const source = fresh('packages');
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
    const root = await push('real', source);
    const target = fresh();
    await runWell('real', 'pull', root, target, '--path', 'a', '--quiet');
    rmSync(join(target, 'a', readdirSync(join(target, 'a'))[0] as string), { recursive: true });
    const peak = await pullAndWatch('real', root, target);
    expect(Bun.spawnSync(['diff', '-r', '--no-dereference', source, target]).exitCode).toBe(0);
    expect(peak).toBeLessThan(MEMORY_BYTES_MAX);
  }, 180_000);
});

function countFiles(path: string): number {
  const found = Bun.spawnSync(['find', path, '-type', 'f', '-printf', 'x']);
  return found.stdout.length;
}

/** Pulls and samples the memory of the process; the most it had. */
async function pullAndWatch(spaceId: string, root: string, target: string): Promise<number> {
  const child = Bun.spawn([join(ROOT, 'bin', 'holdfast'), 'pull', root, target, '--quiet'], {
    env: { PATH: process.env.PATH, HOME: folder.path, ...environment(spaceId) },
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
  test('a file of 1 GiB of the largest chunks', async () => {
    const source = fresh('zeros');
    // Zeros are never cut before the maximum: every chunk is as large as chunks get.
    expect(Bun.spawnSync(['truncate', '--size', '1G', source]).exitCode).toBe(0);
    const root = await push('zeros', source);
    const target = fresh();
    expect(await pullAndWatch('zeros', root, target)).toBeLessThan(MEMORY_BYTES_MAX);
    expect(Bun.spawnSync(['cmp', source, target]).exitCode).toBe(0);
    rmSync(target);
  }, 180_000);
});

describe('killed at any moment', () => {
  test('twelve times, then one clean run brings the whole tree and leaves nothing else', async () => {
    const many = Array.from({ length: 800 }, (_, i) => [`f${i}`, file(500 + i * 13, i)] as const);
    const plan = directory({
      many: directory(Object.fromEntries(many)),
      'large-1': file(24_000_000, 1),
      'large-2': file(9_000_000, 2),
    });
    const { root, source } = await pushPlan('killed', plan);
    const target = fresh();
    let killed = 0;
    for (let round = 0; round < 12; round += 1) {
      const child = Bun.spawn([join(ROOT, 'bin', 'holdfast'), 'pull', root, target, '--quiet'], {
        env: { PATH: process.env.PATH, HOME: folder.path, ...environment('killed') },
        stdout: 'ignore',
        stderr: 'pipe',
      });
      // A little later each time; never so late that all are done before.
      await Promise.race([Bun.sleep(120 + round * 25 + Math.random() * 60), child.exited]);
      child.kill('SIGKILL');
      await child.exited;
      if (child.signalCode === 'SIGKILL') killed += 1;
      else expect([child.exitCode, await new Response(child.stderr).text()]).toEqual([0, '']);
      if (existsSync(target)) expectOnlyWhole(target, source);
    }
    expect(killed).toBeGreaterThanOrEqual(3);
    await runWell('killed', 'pull', root, target, '--quiet');
    expect(readStanding(target)).toEqual(readStanding(source));
  }, 120_000);
});

/** Every file that has its name has all its bytes. */
function expectOnlyWhole(target: string, source: string): void {
  for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.part') || !Bun.file(join(target, name)).size) continue;
    const [here, there] = [join(target, name), join(source, name)];
    if (Bun.spawnSync(['test', '-d', here]).exitCode === 0) continue;
    expect([name, Buffer.compare(readFileSync(here), readFileSync(there))]).toEqual([name, 0]);
  }
}

describe('a server that lies', () => {
  test('gives no file wrong bytes', async () => {
    const { root, source } = await pushPlan('lies', sample);
    let lies = 0;
    const liar = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      async fetch(request) {
        const url = new URL(request.url);
        const answer = await fetch(`${running.server.url}${url.pathname}`, { headers: request.headers });
        if (!url.pathname.endsWith('/content')) return answer;
        const bytes = await answer.bytes();
        // Large contents only: the walk itself goes on, and every second chunk is false.
        if (bytes.length > 50_000 && ++lies % 2 === 0) bytes[bytes.length - 7]! ^= 1;
        return new Response(bytes, { headers: { 'content-type': answer.headers.get('content-type') ?? '' } });
      },
    });
    try {
      const target = fresh();
      const result = await runHoldfast(['pull', root, target, '--quiet'], {
        environment: environment('lies', liar.url.origin),
      });
      expect(result.exitCode).toBe(1);
      expect(result.stderr).toMatch(
        /^holdfast: (large|src\/deep\/er\/x\.txt): [0-9a-f]{64}: what came hashes to/,
      );
      expect(lies).toBeGreaterThan(1);
      expectOnlyWhole(target, source);
      await runWell('lies', 'pull', root, target, '--quiet');
      expect(readStanding(target)).toEqual(readStanding(source));
    } finally {
      await liar.stop(true);
    }
  });
});

describe('a node whose bytes are lost', () => {
  test('is named with its path by pull and verify, and healed by push --check', async () => {
    const { root, source } = await pushPlan('rotten', sample);
    const listed = JSON.parse(await runWell('rotten', 'ls', `${root}/src`, '--json'));
    const { hash } = listed.entries.find(({ name }: { name: string }) => name === 'main.ts');
    new ByteSpoiler(running.data).spoil(findPlace(running.data, 'rotten', hash), 'lost');
    const target = fresh();
    const line = await runBadly(1, 'rotten', 'pull', root, target, '--quiet');
    expect(line).toMatch(/^holdfast: src\/main\.ts: [0-9a-f]{64}: .* lost .* push --check/);
    expect(line).toContain(hash);
    expect(await runBadly(1, 'rotten', 'cat', `${root}/src/main.ts`)).toContain('push --check');

    const verified = await run('rotten', 'verify', root);
    expect([verified.exitCode, verified.stdout]).toEqual([
      1,
      expect.stringContaining(`src/main.ts: ${hash}`),
    ]);
    expect(verified.stdout.trimEnd().split('\n')).toHaveLength(1);
    const json = await run('rotten', 'verify', root, '--json', '--quiet');
    expect([json.exitCode, JSON.parse(json.stdout)]).toEqual([
      1,
      expect.objectContaining({
        faultCount: 1,
        faults: [expect.objectContaining({ path: 'src/main.ts', hash })],
      }),
    ]);

    await runWell('rotten', 'push', source, '--check', '--quiet');
    expect((await run('rotten', 'verify', root, '--quiet')).exitCode).toBe(0);
    await runWell('rotten', 'pull', root, target, '--quiet');
    expect(readStanding(target)).toEqual(readStanding(source));
  });
});

describe('looking at trees', () => {
  let root: string;
  let source: string;
  beforeAll(async () => {
    ({ root, source } = await pushPlan('looking', sample));
  });

  test('ls lists names in order, safe on a terminal, exact in JSON', async () => {
    expect(await runWell('looking', 'ls', root)).toBe('README.md\nempty\nlarge\nlink\nsrc\n');
    expect(await runWell('looking', 'ls', `${root}/src/`)).toBe(
      '\\u001b[31mred\\u000a\ndeep\nmain.ts\n\\xff\\xfe\n',
    );
    expect(await runWell('looking', 'ls', `${root}/src/main.ts`)).toBe('main.ts\n');
    const { entries } = JSON.parse(await runWell('looking', 'ls', `${root}/src`, '--json'));
    expect(entries[0]).toMatchObject({
      name: '\u001b[31mred\n',
      kind: 'file',
      bytes: 10,
      isExecutable: false,
    });
    expect(entries[3]).toMatchObject({ nameHex: 'fffe', bytes: 11 });
    expect(await runWell('looking', 'ls', '-l', `${root}/src/main.ts`)).toMatch(
      /^x +300 [0-9a-f]{64} main\.ts\n$/,
    );
  });

  test('cat writes the bytes', async () => {
    for (const name of ['README.md', 'large', 'src/deep/er/x.txt']) {
      const child = Bun.spawn([join(ROOT, 'bin', 'holdfast'), 'cat', `${root}/${name}`], {
        env: { PATH: process.env.PATH, ...environment('looking') },
        stdout: 'pipe',
      });
      const bytes = await new Response(child.stdout).bytes();
      expect(Buffer.compare(bytes, readFileSync(join(source, name)))).toBe(0);
    }
    expect(await runBadly(1, 'looking', 'cat', `${root}/none`)).toContain('does not exist in this tree');
    expect(await runBadly(1, 'looking', 'cat', `${root}/README.md/x`)).toContain('nothing below');
    expect(await runBadly(1, 'looking', 'cat', `${root}/src`)).toContain('it is a directory');
    expect(await runBadly(1, 'looking', 'cat', `${root}/link`)).toContain('links are not followed');
  });

  test('tree shows all that is below', async () => {
    expect(await runWell('looking', 'tree', `${root}/src`, '--depth', '1')).toBe(
      `${root}/src\n  \\u001b[31mred\\u000a\n  deep/\n  main.ts*\n  \\xff\\xfe\n`,
    );
    const { entries } = JSON.parse(await runWell('looking', 'tree', root, '--json'));
    expect(entries).toHaveLength(11);
    expect(entries.find(({ path }: { path: string }) => path === 'link')).toMatchObject({
      target: '../nowhere',
    });
    expect(entries.map(({ path }: { path: string }) => path)).toContain('src/deep/er/x.txt');
  });

  test('diff reads only what differs, and names it', async () => {
    const changed = fresh('changed');
    expect(Bun.spawnSync(['cp', '-a', source, changed]).exitCode).toBe(0);
    writeFileSync(join(changed, 'large'), seededBytes(5_000_000, 99));
    rmSync(join(changed, 'src', 'deep'), { recursive: true });
    Bun.spawnSync(['chmod', '+x', join(changed, 'README.md')]);
    mkdirSync(join(changed, 'new'));
    writeFileSync(join(changed, 'new', 'n.txt'), 'n');
    const other = await push('looking', changed);
    expect(await runWell('looking', 'diff', root, root)).toBe('');
    expect(await runWell('looking', 'diff', root, other)).toBe(
      [
        'M README.md (mode)',
        'M large',
        'A new/',
        'A new/n.txt',
        'D src/deep/',
        'D src/deep/er/',
        'D src/deep/er/x.txt',
        '',
      ].join('\n'),
    );
    const json = JSON.parse(await runWell('looking', 'diff', other, root, '--json'));
    expect(json).toMatchObject({ added: 3, removed: 2, modified: 2 });
    expect(json.differences[0]).toMatchObject({ type: 'modified', path: 'README.md', aspects: ['mode'] });
  });

  test('du tells own from shared bytes', async () => {
    const [alone] = JSON.parse(await runWell('looking', 'du', root, '--json'));
    expect(alone).toMatchObject({ hash: root, kind: 'directory', entryCount: 11, sharedBytes: 0 });
    const { readyStoredBytes, nodeCount } = JSON.parse(await runWell('du-alone', 'usage', '--json'));
    expect([readyStoredBytes, nodeCount]).toEqual([0, 0]);
    const apart = await push('du-alone', source);
    const usage = JSON.parse(await runWell('du-alone', 'usage', '--json'));
    expect([apart, alone.ownBytes, alone.nodes]).toEqual([root, usage.readyStoredBytes, usage.nodeCount]);
    const src = JSON.parse(await runWell('looking', 'ls', root, '--json')).entries[4].hash;
    const [all, part] = JSON.parse(await runWell('looking', 'du', root, src, '--json'));
    expect(part.ownBytes).toBe(0);
    expect(all.sharedBytes).toBe(part.sharedBytes);
    expect(all.ownBytes + all.sharedBytes).toBe(alone.ownBytes);
    expect(await runWell('looking', 'du', root)).toMatch(/^HASH +BYTES +OWN +SHARED +NODES\n[0-9a-f]{64} /);
  });

  test('verify finds nothing wrong', async () => {
    const { nodeCount } = JSON.parse(await runWell('du-alone', 'usage', '--json'));
    const result = JSON.parse(await runWell('looking', 'verify', root, '--json', '--quiet'));
    expect(result).toMatchObject({ root, nodes: nodeCount, faults: [], faultCount: 0 });
  });

  test('what is no tree, no hash or not there is said so', async () => {
    const node = join(folder.path, 'node');
    writeFileSync(node, 'no tree');
    const plain = (await runWell('looking', 'node', 'put', node)).split(' ')[0] as string;
    expect(await runBadly(1, 'looking', 'pull', plain, fresh())).toContain('none of the tree format');
    expect(await runBadly(1, 'looking', 'ls', 'a'.repeat(64))).toContain('NOT_FOUND');
    expect(await runBadly(1, 'looking', 'verify', 'a'.repeat(64), '--quiet')).toContain(
      '1 node is missing or wrong',
    );
    for (const command of [
      ['ls', 'x'],
      ['cat', 'x/y'],
      ['pull', 'x', 'y'],
      ['verify', 'x'],
      ['du', 'x'],
      ['tree', 'x'],
    ]) {
      expect(await runBadly(2, 'looking', ...command)).toContain('64 lowercase');
    }
  });
});
