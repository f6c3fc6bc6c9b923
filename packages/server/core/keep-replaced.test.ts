/** What packing, compaction and healing replaced stays for a while: rows that are restored to before name it again. */
import { describe, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../test/support/canonical-node.ts';
import { packed } from '../../../test/support/planted-pack.ts';
import { purgeSpace } from './collect/purge-space.ts';
import { runGc } from './collect/run-gc.ts';
import { scrub } from './collect/scrub.ts';
import { compactPacks } from './packs/compact-packs.ts';
import { PACKING_RULES, type PackingWalk, packSmallNodes } from './packs/pack-small-nodes.ts';
import { acceptStrays, TOMBSTONE_MS } from './stray-watch.ts';
import { type CoreWorld, DAY_MS, MINUTE_MS, objectNode, SPACE, smallNode } from './test/core-fixture.ts';
import { manyNodes, PACK_RECEIVERS, type PackClient, usePackWorld } from './test/pack-fixture.ts';

const KEPT_MS = DAY_MS;
const NODES = 70;
const STEPS_MAX = 20;
/** More than the engine takes to walk over all its folders. */
const STRAY_WALK_STEPS = 20;

describe.each(PACK_RECEIVERS)('%s', (_, isDirect) => {
  let world: CoreWorld;
  let client: PackClient;
  usePackWorld(
    isDirect,
    (opened, itsClient) => {
      world = opened;
      client = itsClient;
    },
    { keepReplacedMs: KEPT_MS, activeUploadsMax: NODES },
  );

  const nodeOf = (seed: number): CanonicalNode => (isDirect ? smallNode(seed) : objectNode(seed));
  const sweepTwice = async (): Promise<void> => {
    await world.sweepAll();
    await world.sweepAll();
  };
  const compactAll = async (): Promise<number> => {
    const stuck = new Set<string>();
    let moved = 0;
    for (let steps = 0; steps < STEPS_MAX; steps += 1) {
      const step = await compactPacks(world.core, stuck);
      if (step.bytes === 0) return moved;
      moved += step.moved;
    }
    throw new Error('compaction does not come to an end');
  };
  const packAll = async (): Promise<number> => {
    let moved = 0;
    let walk: PackingWalk | undefined;
    for (let steps = 0; steps < STEPS_MAX; steps += 1) {
      const step = await packSmallNodes(world.core, walk, PACKING_RULES);
      moved += step.moved;
      walk = step.next;
      if (walk === undefined) return moved;
    }
    throw new Error('the walk does not come to an end');
  };
  const expectWhole = async (nodes: readonly CanonicalNode[]): Promise<void> => {
    let foundRotten = 0;
    for (let next: string | undefined, steps = 0; steps === 0 || next !== undefined; steps += 1) {
      const step = await scrub(world.core, next);
      foundRotten += step.foundRotten;
      next = step.next;
    }
    expect(foundRotten).toBe(0);
    const states = await Promise.all(nodes.map((node) => world.row(node)));
    expect(new Set(states.map((row) => row?.state))).toEqual(new Set(['ready']));
  };
  /** The rows go back to before `replace`. All is whole then, and after collection and sweeps; what came later goes in time. */
  const testRestore = async (
    nodes: readonly CanonicalNode[],
    replace: () => Promise<void>,
  ): Promise<void> => {
    await world.keep(nodes);
    const before = await world.copyRows();
    const replaced = world.objects();
    await replace();
    await sweepTwice();
    world.now += KEPT_MS - MINUTE_MS;
    await sweepTwice();
    expect(world.objects()).toEqual(expect.arrayContaining([...replaced]));
    await expectWhole(nodes);
    await world.restoreRows(before);
    await acceptStrays(world.core.metadata, world.now);
    await expectWhole(nodes);
    expect((await runGc(world.core, SPACE, 1000)).deleted).toBe(0);
    for (let step = 0; step < STRAY_WALK_STEPS; step += 1) await world.sweepAll();
    await expectWhole(nodes);
    // What the later rows had made is a stray now.
    world.now += 2 * DAY_MS;
    for (let step = 0; step < STRAY_WALK_STEPS; step += 1) await world.sweepAll();
    expect(world.objects().length).toBeGreaterThan(replaced.length);
    world.now += TOMBSTONE_MS;
    for (let step = 0; step < STRAY_WALK_STEPS; step += 1) await world.sweepAll();
    expect(world.objects()).toEqual(replaced);
    await expectWhole(nodes);
  };
  /** Done again, nothing of it is left when its time is over. */
  const testEnd = async (nodes: readonly CanonicalNode[], replace: () => Promise<void>): Promise<void> => {
    const replaced = world.objects();
    await replace();
    await sweepTwice();
    expect(world.objects()).toEqual(expect.arrayContaining([...replaced]));
    world.now += KEPT_MS;
    await sweepTwice();
    for (const each of replaced) expect(world.objects()).not.toContain(each);
    await expectWhole(nodes);
  };

  test('rows of before a compaction', async () => {
    const [live, dead] = [manyNodes(NODES), manyNodes(300, 7)];
    await client.send([...live, ...dead], [...dead, ...live].map(packed));
    await world.keep(live);
    world.now += 2 * MINUTE_MS;
    expect((await runGc(world.core, SPACE, 10_000)).deleted).toBe(dead.length);
    const replace = async () => expect(await compactAll()).toBe(live.length);
    await testRestore(live, replace);
    await testEnd(live, replace);
  });

  test('rows of before a packing', async () => {
    const nodes = Array.from({ length: NODES }, (_, index) => nodeOf(index));
    await world.publish(...nodes);
    await world.keep(nodes);
    world.now += DAY_MS + 1;
    const replace = async () => expect(await packAll()).toBe(nodes.length);
    await testRestore(nodes, replace);
    await testEnd(nodes, replace);
  });

  test('rows of before a healing, and of before what seemed rot', async () => {
    const [alone, inPack] = [nodeOf(1), smallNode(2)];
    await world.publish(alone);
    await client.send([inPack]);
    const nodes = [alone, inPack];
    const replace = async () => {
      for (const node of nodes) {
        await world.core.metadata.transact(SPACE, async (tx) => {
          const row = (await tx.findNode(node.hash))!;
          await tx.update('node', row, { ...row, state: 'rotten' });
        });
      }
      await world.publish(alone);
      await client.send([inPack]);
    };
    await testRestore(nodes, replace);
    await testEnd(nodes, replace);
  });

  test('a purge keeps nothing', async () => {
    const nodes = Array.from({ length: NODES }, (_, index) => nodeOf(index));
    await world.publish(...nodes);
    await world.keep(nodes);
    world.now += DAY_MS + 1;
    expect(await packAll()).toBe(nodes.length);
    await sweepTwice();
    expect(world.objects().length).toBeGreaterThan(NODES);
    expect(await purgeSpace(world.core, SPACE, async () => true)).toMatchObject({ isFinished: true });
    expect(world.objects()).toEqual([]);
  });
});
