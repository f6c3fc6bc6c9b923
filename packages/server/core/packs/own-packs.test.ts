/** Packs that the server makes itself: nothing moves into one that is gone, and one that nothing moved into does not stay. */
import { describe, expect, test } from 'bun:test';
import type { CanonicalNode } from '../../../../test/support/canonical-node.ts';
import { packed } from '../../../../test/support/planted-pack.ts';
import { runGc } from '../collect/run-gc.ts';
import { sweep } from '../collect/sweep.ts';
import type { Core } from '../core.ts';
import { InvariantViolation } from '../invariant.ts';
import { PACK_GROUP_RECORDS } from '../pack-ports.ts';
import { StoreUnavailable } from '../store-failure.ts';
import { type CoreWorld, DAY_MS, MINUTE_MS, objectNode, SPACE, smallNode } from '../test/core-fixture.ts';
import {
  beforeTransactions,
  manyNodes,
  PACK_RECEIVERS,
  type PackClient,
  usePackWorld,
  withPacks,
} from '../test/pack-fixture.ts';
import { compactPacks, moveLive } from './compact-packs.ts';
import { changeUse, UNUSED } from './own-packs.ts';
import { moveSmall, PACKING_RULES, type PackingWalk, packSmallNodes } from './pack-small-nodes.ts';

const FEW = { ...PACKING_RULES, nodesMin: 3 };
const GC_NODES = 10_000;

describe.each(PACK_RECEIVERS)('%s', (_, isDirect) => {
  let world: CoreWorld;
  let client: PackClient;
  usePackWorld(isDirect, (opened, itsClient) => {
    world = opened;
    client = itsClient;
  });

  const nodesFrom = (from: number, count: number): CanonicalNode[] =>
    Array.from({ length: count }, (_, index) => (isDirect ? smallNode : objectNode)(from + index));

  const pack = async (core: Core): Promise<void> => {
    let walk: PackingWalk | undefined;
    do walk = (await packSmallNodes(core, walk, FEW)).next;
    while (walk !== undefined);
  };

  /** The core, in which `meanwhile` is done once a pack is written and before any row names it. */
  const whenWritten = (meanwhile: () => Promise<unknown>): Core => {
    const { packs } = world.core.content;
    return withPacks(world.core, {
      readRecord: (...given) => packs.readRecord(...given),
      readRecords: (...given) => packs.readRecords(...given),
      write: async (...given) => {
        const written = await packs.write(...given);
        await meanwhile();
        return written;
      },
    });
  };

  /** A pack of many nodes, of which most are dead, and `kept` are live for ever; `gone` live until `collect`. */
  const publishPack = async (gone: readonly CanonicalNode[], kept: readonly CanonicalNode[]) => {
    const dead = manyNodes(2 * (gone.length + kept.length), 9);
    const all = [...gone, ...kept, ...dead];
    await client.send(all, all.map(packed));
    await world.keep(kept);
    await client.leases(gone, { durationMs: 30 * MINUTE_MS });
    world.now += 2 * MINUTE_MS;
    expect((await runGc(world.core, SPACE, GC_NODES)).deleted).toBe(dead.length);
  };
  const collect = async (): Promise<number> => {
    world.now += 31 * MINUTE_MS;
    return (await runGc(world.core, SPACE, GC_NODES)).deleted;
  };
  const expectReadable = async (nodes: readonly CanonicalNode[]): Promise<void> => {
    await world.sweepAll();
    await world.sweepAll();
    expect((await client.read(nodes)).map(({ hash }) => hash)).toEqual(nodes.map(({ hash }) => hash));
  };

  test('compaction moves nothing into a pack that the sweep has taken since its first records went', async () => {
    const [gone, kept] = [manyNodes(PACK_GROUP_RECORDS, 1), manyNodes(20, 2)];
    await publishPack(gone, kept);
    let collected = 0;
    const slow = whenWritten(async () => {
      collected = await collect();
    });
    const core = beforeTransactions(slow, moveLive, (earlier) => earlier === 1 && sweep(world.core));
    expect((await compactPacks(core, new Set())).moved).toBe(0);
    expect(collected).toBe(gone.length);
    await expectReadable(kept);
    expect((await compactPacks(world.core, new Set())).moved).toBe(kept.length);
    await expectReadable(kept);
  });

  test('compaction moves nothing into a pack whose first records went between two groups', async () => {
    const [gone, kept] = [manyNodes(PACK_GROUP_RECORDS, 1), manyNodes(20, 2)];
    await publishPack(gone, kept);
    const core = beforeTransactions(world.core, moveLive, async (earlier) => {
      if (earlier === 0) return;
      expect(await collect()).toBe(gone.length);
      await sweep(world.core);
    });
    expect((await compactPacks(core, new Set())).moved).toBe(gone.length);
    await expectReadable(kept);
  });

  test('small nodes move into no pack that the sweep has taken since its first records went', async () => {
    const [gone, kept] = [nodesFrom(0, PACK_GROUP_RECORDS), nodesFrom(1_000, 20)];
    for (const node of gone) await world.upload(node);
    world.now += 10;
    for (const node of kept) await world.upload(node);
    await world.keep(kept);
    world.now += DAY_MS + 1;
    const slow = whenWritten(() => runGc(world.core, SPACE, GC_NODES));
    await pack(beforeTransactions(slow, moveSmall, (earlier) => earlier === 1 && sweep(world.core)));
    await expectReadable(kept);
    await pack(world.core);
    await expectReadable(kept);
  });

  test('a pack that nothing moved into because its transaction failed is deleted, unless that may still commit', async () => {
    const failing = (body: unknown, error: Error): Core =>
      beforeTransactions(world.core, body, () => {
        throw error;
      });
    const undone = new StoreUnavailable('planted: no room for rows');
    const unknown = [
      new StoreUnavailable('planted: lost during the commit', { isUndecided: true }),
      new Error('planted: the writer has ended'),
    ];
    const small = nodesFrom(0, 10);
    for (const node of small) await world.upload(node);
    await world.keep(small);
    const kept = manyNodes(20, 2);
    await publishPack([], kept);
    world.now += DAY_MS + 1;
    const before = world.objects();
    for (let round = 0; round < 3; round += 1) {
      await expect(compactPacks(failing(moveLive, undone), new Set())).rejects.toThrow('planted');
      await expect(pack(failing(moveSmall, undone))).rejects.toThrow('planted');
    }
    expect(world.objects()).toEqual(before);
    for (const error of unknown) {
      await expect(compactPacks(failing(moveLive, error), new Set())).rejects.toThrow('planted');
      await expect(pack(failing(moveSmall, error))).rejects.toThrow('planted');
    }
    const left = world.objects().filter((generation) => !before.includes(generation));
    expect(left.length).toBe(2 * unknown.length);
    await world.core.content.delete(SPACE, left);
    await expectReadable([...small, ...kept]);
  });
});

test('rows that say otherwise break an invariant', () => {
  const pack = { state: 'judged', bytes: 1_000, isDiscarded: true } as const;
  const change = { liveRecords: 0, liveBytes: 0, hasCome: true, hasDied: true };
  expect(() => changeUse(UNUSED, pack, change, 1)).toThrow(InvariantViolation);
  expect(changeUse(UNUSED, { ...pack, isDiscarded: false }, change, 1)).toMatchObject({ liveRecords: 0 });
  expect(changeUse(UNUSED, pack, { ...change, hasCome: false }, 1)).toMatchObject({ liveRecords: 0 });
});
