/** Pushes of real folders into a real server: the tree arrives, and no node is sent that is there. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { appendFileSync, linkSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { createNodeSource, openTree } from '../packages/client/index.ts';
import { planFolder } from '../packages/files/push.ts';
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
import { PushWorld } from './support/push-world.ts';

let world: PushWorld;
beforeAll(async () => {
  world = await PushWorld.start();
});
afterAll(() => world.end());
afterEach(() => world.closeStates());

/** Compares the tree that the Space holds at `root` with a plan. */
async function expectStored(space: string, root: string, plan: Plan): Promise<void> {
  const reader = openTree(createNodeSource(world.connect(space)));
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
        const path = world.fresh('tree');
        writePlan(path, plan);
        const { root, tree } = await buildPlan(plan);
        const pushed = await world.push(path);
        expect(pushed.root).toBe(root);
        await expectStored(pushed.space, root, plan);
        expect(uploads(pushed.requests)).toBe(tree.nodes.size);
        expect(pushed.requests.length).toBeLessThanOrEqual(4 * tree.nodes.size);
        rmSync(path, { recursive: true });
      }),
      { numRuns: 12 },
    );
  });

  test.each(Object.entries(makeLargePlans()))('of a %s shape', async (name, plan) => {
    const path = world.fresh(name);
    writePlan(path, plan);
    const { root, tree } = await buildPlan(plan);
    const pushed = await world.push(path);
    expect(pushed.root).toBe(root);
    expect(uploads(pushed.requests)).toBe(tree.nodes.size);
    expect(pushed.requests.length).toBeLessThanOrEqual(4 * tree.nodes.size);
    if (name === 'huge') await expectStored(pushed.space, root, plan);
  });

  test('that is a single file or link is pushed as one', async () => {
    for (const plan of [
      file(0),
      file(300_000),
      file(9_000_000),
      { kind: 'symlink', target: '/etc/passwd' } as const,
    ]) {
      const path = world.fresh('single');
      writePlan(path, plan);
      const pushed = await world.push(path);
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

  test('costs one request if nothing changed, even without the local state', async () => {
    const path = world.fresh('same');
    writePlan(path, plan);
    const state = world.openState();
    const { space } = await world.push(path, { state });
    await Bun.sleep(150);
    await world.push(path, { state, space });
    const again = await world.push(path, { state, space });
    expect(again.requests.map(({ kind }) => kind)).toEqual(['lease']);
    expect(again.readCount).toBe(0);
    expect((await world.push(path, { space })).requests.map(({ kind }) => kind)).toEqual(['lease']);
  });

  test('costs the path to a change', async () => {
    const path = world.fresh('change');
    writePlan(path, plan);
    const state = world.openState();
    const { space } = await world.push(path, { state });
    writeFileSync(join(path, 'a/b/c/leaf'), 'changed');
    const deep = await world.push(path, { state, space });
    expect(uploads(deep.requests)).toBe(5);
    expect(deep.requests.length).toBeLessThanOrEqual(4 * 5);
    writeFileSync(join(path, 'wide/f7'), 'changed too');
    // The file, its page, the index and the root.
    const wide = await world.push(path, { state, space });
    expect(uploads(wide.requests)).toBe(4);
    appendFileSync(join(path, 'big'), 'more');
    // The last chunk, the index and the root.
    const big = await world.push(path, { state, space });
    expect(uploads(big.requests)).toBe(3);
    expect(big.requests.length).toBeLessThanOrEqual(4 * 3);
  });

  test('costs nothing when it was moved or linked elsewhere', async () => {
    const path = world.fresh('moved');
    writePlan(path, plan);
    const state = world.openState();
    const { space } = await world.push(path, { state });
    renameSync(join(path, 'a/b'), join(path, 'moved'));
    linkSync(join(path, 'big'), join(path, 'twin'));
    // The root, and `a` without what was in it.
    expect(uploads((await world.push(path, { state, space })).requests)).toBe(2);
  });

  test('is leased node by node with check, and not uploaded again', async () => {
    const path = world.fresh('check');
    writePlan(path, plan);
    const { space, requests } = await world.push(path);
    const nodes = uploads(requests);
    const checked = await world.push(path, { space, check: true });
    expect(uploads(checked.requests)).toBe(0);
    expect(new Set(checked.requests.map(({ hash }) => hash)).size).toBe(nodes);
    expect(checked.requests.length).toBeLessThanOrEqual(nodes + 1);
  });

  test('is shown by a dry run, which changes nothing', async () => {
    const path = world.fresh('dry');
    writePlan(path, plan);
    const options = world.options(path, { client: world.connect('dry'), ignoreFileNames: [] });
    const { tree, root } = await buildPlan(plan);
    world.proxy.forget();
    expect(await planFolder(options)).toMatchObject({ root, missingNodes: tree.nodes.size });
    expect(new Set(world.proxy.passed.map(({ kind }) => kind))).toEqual(new Set(['metadata']));
    expect(await world.connect('dry').getUsage()).toMatchObject({ nodeCount: 0, reservedBytes: 0 });
    await world.push(path, { space: 'dry' });
    expect(await planFolder(options)).toMatchObject({ root, missingNodes: 0, missingBytes: 0 });
  });
});
