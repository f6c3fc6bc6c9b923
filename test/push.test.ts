/** Pushing real folders into a real server: what arrives is the tree, and nothing is sent that is there. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import {
  appendFileSync,
  chmodSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import {
  type Client,
  createClient,
  createNodeSource,
  openTree,
  SILENT_PROGRESS,
} from '../packages/client/index.ts';
import {
  type PushedFolder,
  type PushFolderOptions,
  planFolder,
  pushFolder,
  ScanError,
  TreeState,
} from '../packages/files/index.ts';
import { type CountingProxy, startCountingProxy } from './support/counting-proxy.ts';
import {
  buildPlan,
  contentOf,
  directory,
  file,
  makeLargePlans,
  type Plan,
  plans,
  writePlan,
} from './support/disk-trees.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { makeTempFolder } from './support/temp-folder.ts';

let running: RunningServer;
let proxy: CountingProxy;
let count = 0;
const folder = makeTempFolder('push');
const states: TreeState[] = [];

beforeAll(async () => {
  running = await startFreshServer('push-server');
  proxy = startCountingProxy(running.server.url);
});
afterAll(async () => {
  await proxy.close();
  await running.remove();
  folder.remove();
});
afterEach(() => {
  for (const state of states.splice(0)) state.close();
});

function fresh(name: string): string {
  count += 1;
  return join(folder.path, `${name}-${count}`);
}

function connect(spaceId: string): Client {
  const token = running.issuer.token(spaceId);
  return createClient({ baseUrl: proxy.url, appId: APP, spaceId, token, retry: { attemptsMax: 1 } });
}

function openState(path = ':memory:'): TreeState {
  const state = TreeState.open(path);
  states.push(state);
  return state;
}

/** A push with its own Space and state unless told otherwise, and the requests it took. */
async function push(path: string, options: Partial<PushFolderOptions> & { space?: string } = {}) {
  const { space = fresh('space').split('/').at(-1) as string, ...rest } = options;
  proxy.forget();
  const result: PushedFolder = await pushFolder({
    client: connect(space),
    path,
    state: rest.state ?? openState(),
    ignorePatterns: [],
    ignoreFileNames: ['.holdfastignore'],
    recordsMtime: false,
    skipsSpecial: false,
    leaseDurationMs: 600_000,
    check: false,
    parallelMax: 16,
    progress: SILENT_PROGRESS,
    ...rest,
  });
  return { ...result, space, requests: [...proxy.passed] };
}

/** What the Space holds below `hash`, as a plan would describe it. */
async function expectStored(space: string, root: string, plan: Plan): Promise<void> {
  const reader = openTree(createNodeSource(connect(space)));
  const compare = async (hash: string, expected: Plan): Promise<void> => {
    const item = await reader.readItem(hash);
    expect(item.kind).toBe(expected.kind);
    if (expected.kind === 'file') {
      const pieces: Uint8Array[] = [];
      for await (const piece of reader.readFile(hash)) pieces.push(piece);
      expect(Buffer.compare(Buffer.concat(pieces), contentOf(expected))).toBe(0);
    } else if (expected.kind === 'symlink') {
      expect(Buffer.from(await reader.readSymlink(hash)).toString('latin1')).toBe(expected.target);
    } else {
      const seen: string[] = [];
      for await (const entry of reader.readDirectory(hash)) {
        const name = Buffer.from(entry.name).toString('latin1');
        seen.push(name);
        const below = expected.entries.get(name) as Plan;
        expect(entry.isExecutable).toBe(below.kind === 'file' && below.isExecutable === true);
        await compare(entry.hash, below);
      }
      expect(seen.sort()).toEqual([...expected.entries.keys()].sort());
    }
  };
  await compare(root, plan);
}

function uploads(requests: readonly { kind: string }[]): number {
  return requests.filter(({ kind }) => kind === 'upload').length;
}

describe('any tree', () => {
  test('arrives as the format builds it, and once', async () => {
    await fc.assert(
      fc.asyncProperty(plans, async (plan) => {
        const path = fresh('tree');
        writePlan(path, plan);
        const { root, tree } = await buildPlan(plan);
        const pushed = await push(path);
        expect(pushed.root).toBe(root);
        await expectStored(pushed.space, root, plan);
        expect(uploads(pushed.requests)).toBe(tree.nodes.size);
        expect(pushed.requests.length).toBeLessThanOrEqual(4 * tree.nodes.size);
        rmSync(path, { recursive: true });
      }),
      { numRuns: 20 },
    );
  });

  test.each(Object.entries(makeLargePlans()))('of a %s shape', async (name, plan) => {
    const path = fresh(name);
    writePlan(path, plan);
    const { root, tree } = await buildPlan(plan);
    const pushed = await push(path);
    expect(pushed.root).toBe(root);
    expect(uploads(pushed.requests)).toBe(tree.nodes.size);
    expect(pushed.requests.length).toBeLessThanOrEqual(4 * tree.nodes.size);
    if (name === 'huge') await expectStored(pushed.space, root, plan);
  });

  test('that is a single file or link', async () => {
    for (const plan of [
      file(0),
      file(300_000),
      file(9_000_000),
      { kind: 'symlink', target: '/etc/passwd' } as const,
    ]) {
      const path = fresh('single');
      writePlan(path, plan);
      const pushed = await push(path);
      expect(pushed.root).toBe((await buildPlan(plan)).root);
      await expectStored(pushed.space, pushed.root, plan);
    }
  });
});

describe('what is there', () => {
  const plan = directory({
    a: directory({ b: directory({ c: directory({ leaf: file(100) }) }) }),
    wide: directory(Object.fromEntries(Array.from({ length: 600 }, (_, i) => [`f${i}`, file(20, i + 1)]))),
    big: file(12_000_000, 4),
  });

  test('costs one request when nothing changed, also without what is remembered', async () => {
    const path = fresh('same');
    writePlan(path, plan);
    const state = openState();
    const { space } = await push(path, { state });
    await Bun.sleep(150);
    await push(path, { state, space });
    const again = await push(path, { state, space });
    expect(again.requests.map(({ kind }) => kind)).toEqual(['lease']);
    expect(again.readCount).toBe(0);
    expect((await push(path, { space })).requests.map(({ kind }) => kind)).toEqual(['lease']);
  });

  test('costs the path to a change', async () => {
    const path = fresh('change');
    writePlan(path, plan);
    const state = openState();
    const { space } = await push(path, { state });
    writeFileSync(join(path, 'a/b/c/leaf'), 'changed');
    const deep = await push(path, { state, space });
    expect(uploads(deep.requests)).toBe(5);
    expect(deep.requests.length).toBeLessThanOrEqual(4 * 5);
    writeFileSync(join(path, 'wide/f7'), 'changed too');
    // The file, its page, the index and the root.
    const wide = await push(path, { state, space });
    expect(uploads(wide.requests)).toBe(4);
    appendFileSync(join(path, 'big'), 'more');
    // The last chunk, the index and the root.
    const big = await push(path, { state, space });
    expect(uploads(big.requests)).toBe(3);
    expect(big.requests.length).toBeLessThanOrEqual(4 * 3);
  });

  test('costs nothing when it was moved or linked elsewhere', async () => {
    const path = fresh('moved');
    writePlan(path, plan);
    const state = openState();
    const { space } = await push(path, { state });
    renameSync(join(path, 'a/b'), join(path, 'moved'));
    linkSync(join(path, 'big'), join(path, 'twin'));
    // The root, and `a` without what was in it.
    expect(uploads((await push(path, { state, space })).requests)).toBe(2);
  });

  test('is uploaded again with check when the server has lost it', async () => {
    const path = fresh('check');
    writePlan(path, plan);
    const { space, requests } = await push(path);
    const nodes = uploads(requests);
    const checked = await push(path, { space, check: true });
    expect(uploads(checked.requests)).toBe(0);
    expect(new Set(checked.requests.map(({ hash }) => hash)).size).toBe(nodes);
    expect(checked.requests.length).toBeLessThanOrEqual(nodes + 1);
  });

  test('is told by a dry run, which changes nothing', async () => {
    const path = fresh('dry');
    writePlan(path, plan);
    const options = {
      state: openState(),
      path,
      client: connect('dry'),
      ignorePatterns: [],
      ignoreFileNames: [],
      recordsMtime: false,
      skipsSpecial: false,
      leaseDurationMs: 60_000,
      check: false,
      parallelMax: 8,
      progress: SILENT_PROGRESS,
    };
    const { tree, root } = await buildPlan(plan);
    proxy.forget();
    expect(await planFolder(options)).toMatchObject({ root, missingNodes: tree.nodes.size });
    expect(new Set(proxy.passed.map(({ kind }) => kind))).toEqual(new Set(['metadata']));
    expect(await connect('dry').getUsage()).toMatchObject({ nodeCount: 0, reservedBytes: 0 });
    await push(path, { space: 'dry' });
    expect(await planFolder(options)).toMatchObject({ root, missingNodes: 0, missingBytes: 0 });
  });
});

describe('what is remembered', () => {
  test('never hides a change', async () => {
    await fc.assert(
      fc.asyncProperty(plans, plans, async (before, after) => {
        const path = fresh('remembered');
        const state = openState();
        writePlan(path, before);
        await push(path, { state, space: 'remembered' });
        rmSync(path, { recursive: true });
        writePlan(path, after);
        const { root } = await push(path, { state, space: 'remembered' });
        expect(root).toBe((await buildPlan(after)).root);
        rmSync(path, { recursive: true });
      }),
      { numRuns: 15 },
    );
  });

  test('does not mistake a file of the same size and time', async () => {
    const path = fresh('touched');
    writePlan(path, directory({ f: file(10, 1) }));
    const at = new Date(1_700_000_000_000);
    utimesSync(join(path, 'f'), at, at);
    const state = openState();
    const first = await push(path, { state });
    writeFileSync(join(path, 'f'), contentOf({ kind: 'file', size: 10, seed: 2 }));
    utimesSync(join(path, 'f'), at, at);
    expect((await push(path, { state })).root).not.toBe(first.root);
  });

  test('knows a changed mode and a file that grew past one chunk and back', async () => {
    const path = fresh('grown');
    const state = openState();
    const at = async (plan: Plan): Promise<void> => {
      rmSync(path, { recursive: true, force: true });
      writePlan(path, plan);
      expect((await push(path, { state, space: 'grown' })).root).toBe((await buildPlan(plan)).root);
    };
    await at(directory({ f: file(10) }));
    await at(directory({ f: file(5_000_000) }));
    await at(directory({ f: file(10) }));
    chmodSync(join(path, 'f'), 0o700);
    expect((await push(path, { state, space: 'grown' })).root).not.toBe(
      (await buildPlan(directory({ f: file(10) }))).root,
    );
  });

  test('survives in its file, and is made anew when it is damaged', async () => {
    const path = fresh('state');
    writePlan(path, directory({ f: file(10), big: file(400_000) }));
    const statePath = `${fresh('state')}.sqlite`;
    await Bun.sleep(150);
    const first = TreeState.open(statePath);
    const { root, readCount } = await push(path, { state: first });
    first.close();
    expect(readCount).toBe(2);
    const second = TreeState.open(statePath);
    expect(await push(path, { state: second })).toMatchObject({ root, readCount: 0 });
    second.close();
    writeFileSync(
      statePath,
      'this is no database, whatever its name says; long enough to be read as a page of one'.repeat(99),
    );
    const third = openState(statePath);
    expect(await push(path, { state: third })).toMatchObject({ root, readCount: 2 });
  });
});

describe('what is left out', () => {
  test('is what the patterns say, the innermost last, those from outside first', async () => {
    const path = fresh('ignored');
    writePlan(
      path,
      directory({
        'keep.log': file(1),
        'a.log': file(2),
        deep: directory({ 'b.log': file(3), 'c.txt': file(4) }),
        node_modules: directory({ x: file(5) }),
        '\u00ff.log': file(6),
      }),
    );
    writeFileSync(join(path, '.holdfastignore'), '*.log\n!keep.log\n/node_modules/\n');
    writeFileSync(join(path, 'deep/.holdfastignore'), '!b.log\n');
    const names = async (options: Partial<PushFolderOptions>): Promise<string[]> => {
      const { root, space } = await push(path, options);
      const reader = openTree(createNodeSource(connect(space)));
      const found: string[] = [];
      const walk = async (hash: string, prefix: string): Promise<void> => {
        for await (const entry of reader.readDirectory(hash)) {
          const name = `${prefix}${Buffer.from(entry.name).toString('latin1')}`;
          found.push(name);
          if (entry.kind === 'directory') await walk(entry.hash, `${name}/`);
        }
      };
      await walk(root, '');
      return found;
    };
    expect(await names({})).toEqual([
      '.holdfastignore',
      'deep',
      'deep/.holdfastignore',
      'deep/b.log',
      'deep/c.txt',
      'keep.log',
      '\u00ff.log',
    ]);
    expect(await names({ ignorePatterns: ['deep/\n'] })).toEqual([
      '.holdfastignore',
      'keep.log',
      '\u00ff.log',
    ]);
    expect((await names({ ignoreFileNames: [] })).length).toBe(10);
  });

  test('is never a special file without a word', async () => {
    const path = fresh('special');
    writePlan(path, directory({ f: file(1) }));
    const socket = createServer().listen(join(path, 's'));
    await new Promise((resolve) => socket.once('listening', resolve));
    Bun.spawnSync(['mkfifo', join(path, 'p')]);
    const error = await push(path).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ScanError);
    expect((error as Error).message).toBe('2 entries cannot be stored: p (named pipe), s (socket)');
    expect(proxy.passed).toEqual([]);
    const warnings: string[] = [];
    const progress = { ...SILENT_PROGRESS, warn: (message: string) => void warnings.push(message) };
    expect((await push(path, { skipsSpecial: true, progress })).root).toBe(
      (await buildPlan(directory({ f: file(1) }))).root,
    );
    expect(warnings).toEqual(['p is left out: it is a named pipe', 's is left out: it is a socket']);
    socket.close();
  });

  test('is never what a link leads to', async () => {
    const path = fresh('links');
    mkdirSync(path);
    symlinkSync('/etc', join(path, 'folder'));
    symlinkSync('/etc/hostname', join(path, '.holdfastignore'));
    const plan: Plan = directory({
      folder: { kind: 'symlink', target: '/etc' },
      '.holdfastignore': { kind: 'symlink', target: '/etc/hostname' },
    });
    expect((await push(path)).root).toBe((await buildPlan(plan)).root);
  });
});

describe('times', () => {
  test('are recorded only when asked for', async () => {
    const path = fresh('times');
    writePlan(path, directory({ f: file(1) }));
    const plain = await push(path);
    utimesSync(join(path, 'f'), 1, 1.5);
    expect((await push(path)).root).toBe(plain.root);
    const timed = await push(path, { recordsMtime: true });
    expect(timed.root).not.toBe(plain.root);
    const reader = openTree(createNodeSource(connect(timed.space)));
    for await (const entry of reader.readDirectory(timed.root)) expect(entry.mtimeNs).toBe(1_500_000_000n);
  });
});
