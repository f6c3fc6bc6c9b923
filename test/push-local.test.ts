/** The local half of a push: the remembered state of files, the ignored ones, and the recorded times. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { createNodeSource, openTree, SILENT_PROGRESS } from '../packages/client/internal.ts';
import {
  openTreeState,
  type PushFolderOptions,
  ScanError,
  TreeBusyError,
  TreeState,
} from '../packages/files/push.ts';
import { buildPlan, contentOf, directory, file, type Plan, plans, writePlan } from './support/disk-trees.ts';
import { PushWorld } from './support/push-world.ts';

let world: PushWorld;
beforeAll(async () => {
  world = await PushWorld.start();
});
afterAll(() => world.end());
afterEach(() => world.closeStates());

describe('what is remembered', () => {
  test('never hides a change, and nor does its loss', async () => {
    await fc.assert(
      fc.asyncProperty(plans, plans, fc.boolean(), async (before, after, isForgotten) => {
        const path = world.fresh('remembered');
        const state = world.openState();
        writePlan(path, before);
        await world.push(path, { state, space: 'remembered' });
        rmSync(path, { recursive: true });
        writePlan(path, after);
        if (isForgotten) state.forgetEntries();
        const { root } = await world.push(path, { state, space: 'remembered' });
        expect(root).toBe((await buildPlan(after)).root);
        rmSync(path, { recursive: true });
      }),
      { numRuns: 8 },
    );
  });

  test.each([true, false])(
    'a folder that was emptied is empty (forgotten before: %p)',
    async (isForgotten) => {
      const path = world.fresh('emptied');
      const before = directory({ keeps: file(1), emptied: directory({ inner: directory({ f: file(10) }) }) });
      writePlan(path, before);
      const state = world.openState();
      await world.push(path, { state, space: 'emptied' });
      rmSync(join(path, 'emptied', 'inner'), { recursive: true });
      if (isForgotten) state.forgetEntries();
      const after = directory({ keeps: file(1), emptied: directory() });
      expect((await world.push(path, { state, space: 'emptied' })).root).toBe((await buildPlan(after)).root);
    },
  );

  test('does not mistake a file of the same size and time', async () => {
    const path = world.fresh('touched');
    writePlan(path, directory({ f: file(10, 1) }));
    const at = new Date(1_700_000_000_000);
    utimesSync(join(path, 'f'), at, at);
    // Long enough for the change just made to count as settled.
    await Bun.sleep(200);
    const state = world.openState();
    // One Space: elsewhere the upload itself would notice.
    const options = { state, space: 'touched' };
    const first = await world.push(path, options);
    writeFileSync(join(path, 'f'), contentOf({ kind: 'file', size: 10, seed: 2 }));
    utimesSync(join(path, 'f'), at, at);
    expect((await world.push(path, options)).root).not.toBe(first.root);
  });

  test('is trusted for a file with a modification time in the future', async () => {
    const path = world.fresh('future');
    writePlan(path, directory({ f: file(10, 1) }));
    const soon = new Date(Date.now() + 3_600_000);
    utimesSync(join(path, 'f'), soon, soon);
    const state = world.openState();
    const readCounts: number[] = [];
    // Each push is later than the one before, so the change has settled in one of them.
    while (readCounts.at(-1) !== 0 && readCounts.length < 1_000) {
      readCounts.push((await world.push(path, { state, space: 'future' })).readCount);
    }
    expect(readCounts.at(-1)).toBe(0);
    writeFileSync(join(path, 'f'), 'written now');
    expect((await world.push(path, { state, space: 'future' })).readCount).toBe(1);
  });

  test('knows a changed mode and a file that grew past one chunk and back', async () => {
    const path = world.fresh('grown');
    const state = world.openState();
    const at = async (plan: Plan): Promise<void> => {
      rmSync(path, { recursive: true, force: true });
      writePlan(path, plan);
      expect((await world.push(path, { state, space: 'grown' })).root).toBe((await buildPlan(plan)).root);
    };
    await at(directory({ f: file(10) }));
    await at(directory({ f: file(5_000_000) }));
    await at(directory({ f: file(10) }));
    chmodSync(join(path, 'f'), 0o700);
    expect((await world.push(path, { state, space: 'grown' })).root).not.toBe(
      (await buildPlan(directory({ f: file(10) }))).root,
    );
  });

  test('survives in its file, and is made anew when it is damaged', async () => {
    const path = world.fresh('state');
    writePlan(path, directory({ f: file(10), big: file(400_000) }));
    const statePath = `${world.fresh('state')}.sqlite`;
    await Bun.sleep(150);
    const first = TreeState.open(statePath);
    const { root, readCount } = await world.push(path, { state: first });
    first.close();
    expect(readCount).toBe(2);
    const second = TreeState.open(statePath);
    expect(await world.push(path, { state: second })).toMatchObject({ root, readCount: 0 });
    second.close();
    writeFileSync(
      statePath,
      'this is no database, whatever its name says; long enough to be read as a page of one'.repeat(99),
    );
    const third = world.openState(statePath);
    expect(await world.push(path, { state: third })).toMatchObject({ root, readCount: 2 });
  });
});

describe('what changes meanwhile', () => {
  test('is read again', async () => {
    const path = world.fresh('moving');
    writePlan(path, directory({ a: file(500_000, 1), b: file(10, 1) }));
    let changes = 0;
    world.proxy.onRequest = (kind) => {
      if (kind !== 'upload' || changes > 0) return;
      changes += 1;
      writeFileSync(join(path, 'a'), contentOf({ kind: 'file', size: 500_000, seed: 2 }));
      rmSync(join(path, 'b'));
    };
    const warnings: string[] = [];
    const progress = { ...SILENT_PROGRESS, warn: (message: string) => void warnings.push(message) };
    const { root, leftOut } = await world.push(path, { progress, isStrict: false });
    world.proxy.onRequest = undefined;
    expect(root).toBe((await buildPlan(directory({ a: file(500_000, 2) }))).root);
    const gone = leftOut.map(({ path, why }) => `${path}: ${why}`);
    // Its first bytes went ahead, or it is missed when they are wanted.
    expect(gone).toEqual(['b: it went away while the tree was read']);
    expect(warnings.join()).toContain('changed while it was pushed');
  });

  test('is read again in any number of files, one after the other', async () => {
    const path = world.fresh('live');
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const tree = (seed: number) =>
      directory(Object.fromEntries(names.map((name, at) => [name, file(900 + at, seed)])));
    writePlan(path, tree(1));
    let changes = 0;
    const warnings: string[] = [];
    // The next file is written to only when the change of the one before was noticed.
    world.proxy.onRequest = (kind) => {
      const name = names[changes];
      if (kind !== 'upload' || name === undefined || changes > warnings.length) return;
      writeFileSync(join(path, name), contentOf({ kind: 'file', size: 900 + changes, seed: 2 }));
      changes += 1;
    };
    const progress = { ...SILENT_PROGRESS, warn: (message: string) => void warnings.push(message) };
    const { root } = await world.push(path, { progress, parallelMax: 1 });
    world.proxy.onRequest = undefined;
    expect(changes).toBe(names.length);
    expect(warnings.length).toBeGreaterThan(4);
    expect(root).toBe((await buildPlan(tree(2))).root);
  });

  test('all the time ends the push, and the error names the file', async () => {
    const path = world.fresh('restless');
    writePlan(path, directory({ log: file(1_000, 1) }));
    let seed = 1;
    world.proxy.onRequest = (kind) => {
      if (kind === 'upload')
        writeFileSync(join(path, 'log'), contentOf({ kind: 'file', size: 1_000, seed: ++seed }));
    };
    const error = await world.push(path).catch((reason: unknown) => reason);
    world.proxy.onRequest = undefined;
    expect(error).toBeInstanceOf(TreeBusyError);
    expect((error as Error).message).toStartWith('log keeps changing');
  });

  test('all the time is left out and named, and all the rest is stored', async () => {
    const path = world.fresh('restless');
    writePlan(path, directory({ log: file(1_000, 1), rest: directory({ f: file(10) }) }));
    let seed = 1;
    world.proxy.onRequest = (kind) => {
      if (kind === 'upload')
        writeFileSync(join(path, 'log'), contentOf({ kind: 'file', size: 1_000, seed: ++seed }));
    };
    const { root, leftOut } = await world.push(path, { isStrict: false });
    world.proxy.onRequest = undefined;
    expect(leftOut).toMatchObject([{ path: 'log', why: 'it changed each time it was read' }]);
    expect(root).toBe((await buildPlan(directory({ rest: directory({ f: file(10) }) }))).root);
  });
});

describe('what is left out', () => {
  test('is what the patterns say: the innermost decides last, those of the command first', async () => {
    const path = world.fresh('ignored');
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
      const { root, space } = await world.push(path, options);
      const reader = openTree(createNodeSource(world.connect(space)));
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

  test('is the local state, if the folder holds it', async () => {
    const path = world.fresh('home');
    writePlan(path, directory({ f: file(1) }));
    const cacheFolder = join(path, '.cache/holdfast');
    const push = async (): Promise<string> => {
      const state = openTreeState({ cacheFolder, path, recordsMtime: false });
      const { root } = await world.push(path, { state });
      state.close();
      return root;
    };
    const root = await push();
    expect(root).toBe(
      (await buildPlan(directory({ f: file(1), '.cache': directory({ holdfast: directory() }) }))).root,
    );
    writeFileSync(join(cacheFolder, 'trees', 'of another path.sqlite'), 'changes with each push of it');
    expect(await push()).toBe(root);
  });

  test('is nothing if an existing folder is named for the cache', async () => {
    const path = world.fresh('cached');
    writePlan(path, directory({ f: file(1), trees: directory({ oak: file(2) }) }));
    const state = openTreeState({ cacheFolder: path, path: world.fresh('other'), recordsMtime: false });
    const { root, space } = await world.push(path);
    state.close();
    const reader = openTree(createNodeSource(world.connect(space)));
    expect(await reader.resolvePath(root, [Buffer.from('trees'), Buffer.from('oak')])).toMatchObject({
      bytes: 2,
    });
  });

  test('is never a special file without a message', async () => {
    const path = world.fresh('special');
    writePlan(path, directory({ f: file(1) }));
    const socket = createServer().listen(join(path, 's'));
    await new Promise((resolve) => socket.once('listening', resolve));
    Bun.spawnSync(['mkfifo', join(path, 'p')]);
    const error = await world.push(path).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ScanError);
    expect((error as Error).message).toBe('2 entries cannot be stored: p (named pipe), s (socket)');
    expect(world.proxy.passed).toEqual([]);
    const warnings: string[] = [];
    const progress = { ...SILENT_PROGRESS, warn: (message: string) => void warnings.push(message) };
    expect((await world.push(path, { skipsSpecial: true, progress })).root).toBe(
      (await buildPlan(directory({ f: file(1) }))).root,
    );
    expect(warnings).toEqual([]);
    expect((await world.push(path, { isStrict: false })).leftOut).toMatchObject([
      { path: 'p', why: 'named pipe' },
      { path: 's', why: 'socket' },
    ]);
    socket.close();
  });

  test('is never the target of a link: the link itself is kept', async () => {
    const path = world.fresh('links');
    mkdirSync(path);
    symlinkSync('/etc', join(path, 'folder'));
    symlinkSync('/etc/hostname', join(path, '.holdfastignore'));
    const plan: Plan = directory({
      folder: { kind: 'symlink', target: '/etc' },
      '.holdfastignore': { kind: 'symlink', target: '/etc/hostname' },
    });
    const warnings: string[] = [];
    const progress = { ...SILENT_PROGRESS, warn: (message: string) => void warnings.push(message) };
    expect((await world.push(path, { progress })).root).toBe((await buildPlan(plan)).root);
    const said =
      'is a link, which is not followed: nothing is left out by its patterns; put a file in its place';
    expect(warnings).toEqual([`.holdfastignore ${said}`]);
  });
});

describe('times', () => {
  test('are recorded only when asked for', async () => {
    const path = world.fresh('times');
    writePlan(path, directory({ f: file(1) }));
    const plain = await world.push(path);
    utimesSync(join(path, 'f'), 1, 1.5);
    expect((await world.push(path)).root).toBe(plain.root);
    const timed = await world.push(path, { recordsMtime: true });
    expect(timed.root).not.toBe(plain.root);
    const reader = openTree(createNodeSource(world.connect(timed.space)));
    for await (const entry of reader.readDirectory(timed.root)) expect(entry.mtimeNs).toBe(1_500_000_000n);
  });
});
