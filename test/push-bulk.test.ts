/**
 * Real folders go into a real server by Bulk and out of it: with few requests, as the same tree as by single ones, also after
 * an interruption.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createBundle,
  importBundle,
  type ProgressReporter,
  SILENT_PROGRESS,
  verifyTree,
} from '../packages/client/internal.ts';
import { openSpaceSource, pullToPath } from '../packages/files/index.ts';
import { ScanError, TreeBusyError } from '../packages/files/push.ts';
import { buildPlan, directory, file, makeLargePlans, type Plan, writePlan } from './support/disk-trees.ts';
import { PushWorld } from './support/push-world.ts';

let world: PushWorld;
beforeAll(async () => {
  world = await PushWorld.start({ offersBulk: true });
});
afterAll(() => world.end());
afterEach(() => {
  world.proxy.offersBulk = true;
  world.proxy.onRequest = undefined;
  world.closeStates();
});

const FOLDERS = 40;
const FILES = 50;
const makePlan = (folders: number): Plan =>
  directory(
    Object.fromEntries(
      Array.from({ length: folders }, (_, at) => [
        `d${at}`,
        directory(
          Object.fromEntries(
            Array.from({ length: FILES }, (_, n) => [`f${n}`, file(300 + 9 * n, at * FILES + n + 1)]),
          ),
        ),
      ]),
    ),
  );
const plan = makePlan(FOLDERS);
const TEST_MS_MAX = 300_000;

async function pulled(space: string, root: string, expected: Plan): Promise<string[]> {
  const source = openSpaceSource(world.connect(space));
  const target = world.fresh('pulled');
  world.proxy.forget();
  await pullToPath(source, root, target);
  const kinds = world.proxy.passed.map(({ kind }) => kind);
  expect((await world.push(target)).root).toBe((await buildPlan(expected)).root);
  rmSync(target, { recursive: true });
  return kinds;
}

test(
  '2,000 files take 0.02 requests each in both directions, and two in all if everything is there',
  async () => {
    const path = world.fresh('many');
    writePlan(path, plan);
    const { root, tree } = await buildPlan(plan);
    const pushed = await world.push(path);
    expect([pushed.root, pushed.uploadedNodes]).toEqual([root, tree.nodes.size]);
    expect(pushed.requests.length).toBeLessThanOrEqual(0.02 * tree.nodes.size);
    // One for the first pack and one for the root: nothing is remembered of the first push.
    expect((await world.push(path, { space: pushed.space })).requests.map(({ kind }) => kind)).toEqual([
      'leases',
      'leases',
    ]);
    const kinds = await pulled(pushed.space, root, plan);
    expect(kinds.length).toBeLessThanOrEqual(0.02 * tree.nodes.size);
    expect(new Set(kinds)).toEqual(new Set(['reads']));
    world.proxy.forget();
    const verified = await verifyTree(openSpaceSource(world.connect(pushed.space)), root);
    expect(verified).toMatchObject({ nodes: tree.nodes.size, faults: 0 });
    expect(world.proxy.passed.length).toBeLessThanOrEqual(0.02 * tree.nodes.size);
  },
  TEST_MS_MAX,
);

test('an unchanged tree takes one request, though it has a folder of many entries or files that are read again', async () => {
  const path = world.fresh('unchanged');
  const wide = directory(
    Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`f${n}`, file(20, n + 1)])),
  );
  writePlan(path, directory({ few: directory({ x: file(10), y: file(20) }), large: file(5_000_000), wide }));
  const state = world.openState();
  const { root, space } = await world.push(path, { state });
  const expectOneRequest = async (readCount: number): Promise<void> => {
    const again = await world.push(path, { state, space });
    expect([again.root, again.readCount, again.requests.map(({ kind }) => kind)]).toEqual([
      root,
      readCount,
      ['leases'],
    ]);
  };
  // Times older than the clock's grain are trusted from now on.
  await Bun.sleep(150);
  await world.push(path, { state, space });
  await expectOneRequest(0);
  // Written again with what they held: they look changed.
  for (const name of ['few/x', 'wide/f300']) writeFileSync(join(path, name), readFileSync(join(path, name)));
  await expectOneRequest(2);
  // A change that the push can read only later is sent all the same.
  writeFileSync(join(path, 'wide/f300'), 'changed');
  const changed = await world.push(path, { state, space });
  expect([changed.root === root, changed.uploadedNodes]).toEqual([false, 4]);
});

/** More than is read before the first pack has arrived. */
const LARGE_BYTES = 40 * 1024 * 1024;
/** The requests of all packs of such a file, and those before and after them. */
const LARGE_REQUESTS_MAX = 30;

test(
  'a file that nothing compresses fills several packs, and comes back the same',
  async () => {
    const path = world.fresh('alone');
    const plan = file(LARGE_BYTES, 7);
    writePlan(path, plan);
    const { root, tree } = await buildPlan(plan);
    const pushed = await world.push(path);
    expect([pushed.root, pushed.uploadedNodes]).toEqual([root, tree.nodes.size]);
    const kinds = pushed.requests.map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(['leases', 'pack-upload', 'pack-lease']));
    expect(kinds.filter((kind) => kind === 'pack-upload').length).toBeGreaterThan(1);
    expect(kinds.length).toBeLessThan(LARGE_REQUESTS_MAX);
    const target = world.fresh('alone-back');
    await pullToPath(openSpaceSource(world.connect(pushed.space)), pushed.root, target);
    expect(readFileSync(target).equals(readFileSync(path))).toBe(true);
  },
  TEST_MS_MAX,
);

test(
  'a large file that is written anew while its chunks go ahead arrives as it is then, and counts once',
  async () => {
    const path = world.fresh('rewritten');
    writePlan(path, file(LARGE_BYTES, 8));
    const later = file(LARGE_BYTES, 9);
    let isChanged = false;
    world.proxy.onRequest = (kind, moment) => {
      if (isChanged || kind !== 'pack-upload' || moment !== 'asked') return;
      isChanged = true;
      writePlan(path, later);
    };
    let counted = 0;
    const count: ProgressReporter['count'] = (more) => {
      counted += more.bytes ?? 0;
    };
    const pushed = await world.push(path, { progress: { ...SILENT_PROGRESS, count } });
    expect(isChanged).toBe(true);
    expect(pushed.root).toBe((await buildPlan(later)).root);
    expect(counted).toBe(LARGE_BYTES);
    const source = openSpaceSource(world.connect(pushed.space));
    expect(await verifyTree(source, pushed.root)).toMatchObject({ faults: 0 });
  },
  TEST_MS_MAX,
);

test(
  'trees of any shape arrive as they do by single requests',
  async () => {
    for (const [name, shape] of Object.entries(makeLargePlans())) {
      const path = world.fresh(name);
      writePlan(path, shape);
      const { root } = await buildPlan(shape);
      const pushed = await world.push(path);
      expect(pushed.root).toBe(root);
      await pulled(pushed.space, root, shape);
    }
  },
  TEST_MS_MAX,
);

test(
  'a server that stops offering Bulk during a push gets the rest by single requests',
  async () => {
    const small = directory({ a: directory({ x: file(10), y: file(20) }), b: file(30) });
    const path = world.fresh('gone');
    writePlan(path, small);
    const { root, tree } = await buildPlan(small);
    for (const kind of ['leases', 'pack-upload', 'pack-lease']) {
      world.proxy.offersBulk = true;
      world.proxy.onRequest = (asked, moment) => {
        if (asked === kind && moment === 'answered') world.proxy.offersBulk = false;
      };
      const pushed = await world.push(path);
      expect(pushed.root).toBe(root);
      const source = openSpaceSource(world.connect(pushed.space));
      expect(await verifyTree(source, root)).toMatchObject({ nodes: tree.nodes.size, faults: 0 });
    }
  },
  TEST_MS_MAX,
);

test(
  'after a push that stopped at any request the next one sends only what is missing',
  async () => {
    const path = world.fresh('stopped');
    const few = makePlan(10);
    writePlan(path, few);
    const { root, tree } = await buildPlan(few);
    for (const stopAt of ['leases', 'pack-upload', 'pack-lease']) {
      const stop = new AbortController();
      const space = `stopped-${stopAt}`;
      world.proxy.onRequest = (kind, moment) => {
        if (kind === stopAt && moment === 'answered') stop.abort(new Error('stopped'));
      };
      await expect(world.push(path, { space, signal: stop.signal })).rejects.toThrow('stopped');
      world.proxy.onRequest = undefined;
      // The server may still judge a pack that it has taken: then even fewer are missing.
      const { nodeCount } = await world.connect(space).getUsage();
      if (stopAt === 'pack-lease') expect(nodeCount).toBeGreaterThan(0);
      const again = await world.push(path, { space });
      expect(again.root).toBe(root);
      expect(again.uploadedNodes).toBeLessThanOrEqual(tree.nodes.size - nodeCount);
      expect(await verifyTree(openSpaceSource(world.connect(space)), root)).toMatchObject({ faults: 0 });
    }
  },
  TEST_MS_MAX,
);

test(
  'a changed file costs a pack; a bundle moves the tree in a few requests',
  async () => {
    const path = world.fresh('changed');
    writePlan(path, plan);
    const state = world.openState();
    const { space } = await world.push(path, { state });
    writeFileSync(join(path, 'd7', 'f7'), 'changed');
    const changed = await world.push(path, { state, space });
    expect(changed.uploadedNodes).toBeLessThanOrEqual(4);
    expect(changed.requests.length).toBeLessThanOrEqual(8);
    world.proxy.forget();
    const bundle = createBundle(world.connect(space), [changed.root]);
    const { nodes, uploadedNodes } = await importBundle(world.connect('bundled'), bundle);
    expect(uploadedNodes).toBe(nodes);
    expect(world.proxy.passed.length).toBeLessThanOrEqual(0.05 * nodes);
    const source = openSpaceSource(world.connect('bundled'));
    expect(await verifyTree(source, changed.root)).toMatchObject({ nodes, faults: 0 });
  },
  TEST_MS_MAX,
);

test(
  'bytes that went ahead and are found there afterwards count once',
  async () => {
    const path = world.fresh('sparse');
    const bytes = 8 * 1024 * 1024;
    writePlan(path, directory({ random: file(bytes, 1) }));
    writeFileSync(join(path, 'zeros'), Buffer.alloc(bytes));
    let [counted, there] = [0, 0];
    const count: ProgressReporter['count'] = (more) => {
      counted += more.bytes ?? 0;
      there += more.deduplicatedBytes ?? 0;
    };
    await world.push(path, { progress: { ...SILENT_PROGRESS, count } });
    expect(counted).toBe(2 * bytes);
    // The first piece of the holes was sent, the others are the same.
    expect(there).toBeLessThan(bytes);
  },
  TEST_MS_MAX,
);

const makeFiles = (count: number, bytes: number): Record<string, Plan> =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`f${at}`, file(bytes, at + bytes)]));
const makePipe = (path: string): void => expect(Bun.spawnSync(['mkfifo', path]).exitCode).toBe(0);

test(
  'a large tree with a pipe at its end is refused before anything is sent',
  async () => {
    const path = world.fresh('with-a-pipe');
    writePlan(path, directory({ a: directory(makeFiles(120, 200_000)) }));
    makePipe(join(path, 'z'));
    world.proxy.forget();
    await expect(world.push(path)).rejects.toThrow(ScanError);
    expect(world.proxy.passed).toEqual([]);
  },
  TEST_MS_MAX,
);

test(
  'a pipe that appears while a large tree is read and sent ends the push, and what was sent is said',
  async () => {
    const path = world.fresh('disturbed');
    writePlan(path, directory({ a: directory(makeFiles(150, 200_000)), b: directory({ c: file(10) }) }));
    let isThere = false;
    world.proxy.onRequest = () => {
      if (!isThere) makePipe(join(path, 'b', 'pipe'));
      isThere = true;
    };
    const failure = world.push(path).catch((error: unknown) => error);
    expect(await failure).toBeInstanceOf(TreeBusyError);
    expect(String(await failure)).toContain('b/pipe (named pipe); some files were sent meanwhile');
  },
  TEST_MS_MAX,
);
