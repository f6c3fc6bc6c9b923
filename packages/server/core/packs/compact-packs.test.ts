/** Compaction: what it moves, when, and what it must never lose or double (core/packs/README.md). */
import { describe, expect, test } from 'bun:test';
import { Readable } from 'node:stream';
import { PACK_RECORDS_MAX } from '@holdfast/protocol';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import { packed, plain } from '../../../../test/support/planted-pack.ts';
import { runGc } from '../collect/run-gc.ts';
import type { Core } from '../core.ts';
import type { CompactablePack } from '../pack-ports.ts';
import { getUsage } from '../read/get-usage.ts';
import { readContent } from '../read/read-content.ts';
import { readNodes } from '../read/read-nodes.ts';
import { ContentLost, StoreUnavailable } from '../store-failure.ts';
import { TOMBSTONE_MS } from '../stray-watch.ts';
import { CALLER, type CoreWorld, DAY_MS, MINUTE_MS, SPACE, smallNode } from '../test/core-fixture.ts';
import {
  beforeTransactions,
  manyNodes,
  PACK_RECEIVERS,
  type PackClient,
  statesOf,
  usePackWorld,
  withPacks,
  withRows,
} from '../test/pack-fixture.ts';
import type { Pages } from '../upkeep-ports.ts';
import { compactPacks, moveLive } from './compact-packs.ts';

const STEPS_MAX = 20;
/** More than the engine takes to walk over all its folders. */
const STRAY_WALK_STEPS = 20;

describe.each(PACK_RECEIVERS)('%s', (_, isDirect) => {
  let world: CoreWorld;
  let client: PackClient;
  usePackWorld(isDirect, (opened, itsClient) => {
    world = opened;
    client = itsClient;
  });

  const compactAll = async (core: Core = world.core): Promise<number> => {
    let moved = 0;
    const stuck = new Set<string>();
    for (let steps = 0; steps < STEPS_MAX; steps += 1) {
      const step = await compactPacks(core, stuck);
      if (step.bytes === 0) return moved;
      moved += step.moved;
    }
    throw new Error('compaction does not come to an end');
  };
  /** A pack of `live` and `dead`, of which the dead are collected. */
  const wornPack = async (
    live: readonly CanonicalNode[],
    dead: readonly CanonicalNode[],
  ): Promise<string> => {
    const { id } = await client.send([...live, ...dead], [...dead, ...live].map(packed));
    await world.keep(live);
    world.now += 2 * MINUTE_MS;
    expect((await runGc(world.core, SPACE, 10_000)).deleted).toBe(dead.length);
    return id;
  };
  const expectWhole = async (nodes: readonly CanonicalNode[]): Promise<void> => {
    const records = await client.read(nodes);
    expect(records.map(({ hash }) => hash)).toEqual(nodes.map(({ hash }) => hash));
    for (const [index, { stored }] of records.entries()) {
      expect(Buffer.compare(stored, nodes[index]!.bytes)).toBe(0);
    }
  };
  const outliveUrls = async (): Promise<void> => {
    world.now += isDirect ? 10 * MINUTE_MS : 0;
    await world.sweepAll();
    await world.sweepAll();
  };

  test('records of a pack less than half live move unchanged, and its object is deleted', async () => {
    const live = [makeNode('t'.repeat(4000)), ...manyNodes(3)];
    const id = await wornPack(live, manyNodes(300, 7));
    const { generation } = (await client.pack(id))!;
    const before = await getUsage(world.core, SPACE);
    const places = await Promise.all(live.map((node) => client.place(node)));
    expect(await compactAll()).toBe(live.length);
    expect(await getUsage(world.core, SPACE)).toEqual(before);
    for (const [index, node] of live.entries()) {
      const { codec, storedLength } = places[index]!;
      expect(await client.place(node)).toMatchObject({ codec, storedLength });
      expect((await client.place(node)).pack).not.toBe(generation);
    }
    await outliveUrls();
    expect(world.objects()).toEqual([(await client.place(live[0]!)).pack]);
    await expectWhole(live);
    expect(await compactAll()).toBe(0);
    // The verdicts stay where they were.
    expect(statesOf(await client.lease(id)).filter((state) => state === 'ready')).toHaveLength(live.length);
  });

  test('a pack more than half live is compacted once a record has been dead for 6 days', async () => {
    const live = manyNodes(20);
    await wornPack(live, [smallNode(9e8)]);
    expect(await compactAll()).toBe(0);
    world.now += 6 * DAY_MS - 1;
    expect(await compactAll()).toBe(0);
    world.now += 1;
    expect(await compactAll()).toBe(live.length);
    await expectWhole(live);
  });

  test('bytes that never became a row go too: rejected, known before, or behind a framing fault', async () => {
    const [live, known] = [manyNodes(20), smallNode(9e8)];
    await client.send([known]);
    await world.keep([known]);
    await client.send(live, [...live, known].map(plain));
    await world.keep(live);
    const { pack } = await client.place(live[0]!);
    world.now += 6 * DAY_MS;
    expect(await compactAll()).toBe(live.length);
    expect((await client.place(live[0]!)).pack).not.toBe(pack);
    await expectWhole([known, ...live]);
  });

  test('near records are read at once, a little at a time', async () => {
    const live = manyNodes(130);
    await wornPack(live, manyNodes(300, 7));
    const read: number[] = [];
    const { packs } = world.core.content;
    const core = withPacks(world.core, {
      readRecord: () => Promise.reject(new Error('one record is read by itself')),
      readRecords: (space, records) => {
        read.push(records.length);
        return packs.readRecords(space, records);
      },
      write: (...given) => packs.write(...given),
    });
    expect(await compactAll(core)).toBe(live.length);
    // Once to prove them, once to write them.
    expect(read).toEqual([64, 64, 2, 64, 64, 2]);
    await expectWhole(live);
  });

  test('a pack whose records go while they are copied is looked at anew, and no step fails', async () => {
    const live = manyNodes(20);
    await wornPack(live, manyNodes(30, 7));
    const { packs } = world.core.content;
    let reads = 0;
    const core = withPacks(world.core, {
      readRecords: (space, records) => {
        reads += 1;
        if (reads === 2) throw new ContentLost('a purge has taken the pack');
        return packs.readRecords(space, records);
      },
      write: (...given) => packs.write(...given),
    });
    expect((await compactPacks(core, new Set())).moved).toBe(0);
    expect(reads).toBe(2);
    expect(await compactAll(core)).toBe(live.length);
    await expectWhole(live);
  });

  test('several packs with dead bytes become one', async () => {
    const live = manyNodes(6);
    for (const [index, node] of live.entries()) await wornPack([node], manyNodes(30, 10 + index));
    expect(await compactAll()).toBe(live.length);
    expect(new Set(await Promise.all(live.map(async (node) => (await client.place(node)).pack))).size).toBe(
      1,
    );
    await expectWhole(live);
  });

  test('a pack that no longer fits beside the others is left to the next step', async () => {
    const live = manyNodes(2);
    for (const [index, node] of live.entries()) await wornPack([node], manyNodes(30, 10 + index));
    const { metadata } = world.core;
    const page = (async (kind: keyof Pages, wanted: never) => {
      const found = await metadata.page(kind, wanted);
      if (kind !== 'packsToCompact') return found;
      const packs = found as readonly CompactablePack[];
      return packs.map((each) => ({ ...each, use: { ...each.use, liveRecords: PACK_RECORDS_MAX } }));
    }) as typeof metadata.page;
    const core = withRows(world.core, { page });
    expect(await compactPacks(core, new Set())).toMatchObject({ moved: 1 });
    await expectWhole(live);
  });

  test('a crash at any step loses and doubles nothing, and the next run finishes the work', async () => {
    const live = manyNodes(600);
    await wornPack(live, [...manyNodes(1500, 7)]);
    for (const crashAt of [0, 1, 2]) {
      const core = beforeTransactions(world.core, moveLive, (earlier) => {
        if (earlier === crashAt) throw new Error('planted: a crash');
      });
      await expect(compactPacks(core, new Set())).rejects.toThrow('planted');
      await world.restart();
      await expectWhole(live);
    }
    await compactAll();
    await outliveUrls();
    await expectWhole(live);
    // An object that no row ever named is a stray.
    world.now += 3 * DAY_MS;
    await world.keep(live);
    for (let step = 0; step < STRAY_WALK_STEPS; step += 1) await world.sweepAll();
    world.now += TOMBSTONE_MS;
    for (let step = 0; step < STRAY_WALK_STEPS; step += 1) await world.sweepAll();
    expect([...world.objects()].sort()).toEqual(
      [...new Set(await Promise.all(live.map(async (node) => (await client.place(node)).pack)))].sort(),
    );
  });

  test('a node healed or collected while its record is copied keeps its new state', async () => {
    const [stays, goes, healed] = [smallNode(1), smallNode(2), smallNode(3)];
    await wornPack([stays, goes, healed], manyNodes(300, 7));
    const core = beforeTransactions(world.core, moveLive, async () => {
      await world.core.metadata.transact(SPACE, async (tx) => {
        const dying = (await tx.findNode(goes.hash))!;
        await tx.update('node', dying, { ...dying, leaseExpiresAt: world.now });
        const row = (await tx.findNode(healed.hash))!;
        await tx.update('node', row, { ...row, state: 'rotten' });
      });
      expect((await runGc(world.core, SPACE, 10)).deleted).toBe(1);
      await client.send([healed]);
    });
    expect((await compactPacks(core, new Set())).moved).toBe(1);
    await outliveUrls();
    expect(await world.row(goes)).toBeUndefined();
    await expectWhole([stays, healed]);
    expect((await client.place(stays)).pack).not.toBe((await client.place(healed)).pack);
  });

  test('a read that began at the old place continues at the new one', async () => {
    const live = manyNodes(5);
    await wornPack(live, manyNodes(300, 7));
    let isMoved = false;
    const move = async (): Promise<void> => {
      if (isMoved) return;
      isMoved = true;
      await compactAll();
      await outliveUrls();
    };
    const { packs } = world.core.content;
    const core = withPacks(world.core, {
      readRecord: async (...given) => {
        await move();
        return packs.readRecord(...given);
      },
      readRecords: async (...given) => {
        await move();
        return packs.readRecords(...given);
      },
    });
    const hashes = live.map(({ hash }) => hash);
    const pieces = await Array.fromAsync(readNodes(core, SPACE, hashes, true));
    const bytes = Buffer.concat(pieces.flat());
    for (const node of live) expect(bytes.includes(node.bytes)).toBe(true);
    expect(world.rotReports).toEqual([]);
    const { body } = await readContent(world.core, SPACE, hashes[0]!, undefined, CALLER);
    expect(Buffer.compare(await new Response(body as BodyInit).bytes(), live[0]!.content)).toBe(0);
  });

  test('packs with a rotten record hold up no others, however many they are', async () => {
    const [rotten, others] = [manyNodes(70, 11), manyNodes(2, 12)];
    for (const node of rotten) {
      await wornPack([node], manyNodes(3, 13));
      await world.core.metadata.transact(SPACE, async (tx) => {
        const row = (await tx.findNode(node.hash))!;
        await tx.update('node', row, { ...row, state: 'rotten' });
      });
    }
    await wornPack(others, manyNodes(3, 14));
    expect(await compactAll()).toBe(others.length);
  });

  test('a pack that cannot be read now holds up no others', async () => {
    const [unread, others] = [manyNodes(2, 15), manyNodes(2, 16)];
    await wornPack(unread, manyNodes(300, 17));
    await wornPack(others, manyNodes(200, 18));
    const { pack } = await client.place(unread[0]!);
    const { packs } = world.core.content;
    const core = withPacks(world.core, {
      write: packs.write.bind(packs),
      readRecords: async (space, records) => {
        if (records.some(({ place }) => place.pack === pack)) throw new StoreUnavailable('planted: EIO');
        return packs.readRecords(space, records);
      },
    });
    const stuck = new Set<string>();
    await expect(compactPacks(core, stuck)).rejects.toThrow('planted');
    expect(await compactPacks(core, stuck)).toMatchObject({ moved: others.length });
    expect(await compactAll()).toBe(unread.length);
    await expectWhole([...unread, ...others]);
  });

  test('where there is no room for several packs, each is moved alone', async () => {
    const [some, others] = [manyNodes(3, 15), manyNodes(2, 16)];
    await wornPack(some, manyNodes(300, 17));
    await wornPack(others, manyNodes(200, 18));
    const { packs } = world.core.content;
    const core = withPacks(world.core, {
      readRecords: packs.readRecords.bind(packs),
      write: async (space, generation, pieces) => {
        const parts = await Array.fromAsync(pieces);
        const room = 8 + some.reduce((sum, { bytes }) => sum + 44 + bytes.length, 0);
        const wanted = parts.reduce((sum, { length }) => sum + length, 0);
        if (wanted > room) throw new StoreUnavailable('planted: ENOSPC');
        return packs.write(space, generation, Readable.from(parts));
      },
    });
    const stuck = new Set<string>();
    expect(await compactPacks(core, stuck)).toMatchObject({ moved: some.length });
    expect(await compactPacks(core, stuck)).toMatchObject({ moved: others.length });
    await expectWhole([...some, ...others]);
  });

  if (isDirect) return;
  test('a pack with a rotten or damaged record is left alone until that is healed', async () => {
    const live = manyNodes(5);
    const bad = live[2]!;
    await wornPack(live, manyNodes(300, 7));
    const { pack } = await client.place(bad);
    await client.spoil(bad, 'flipped');
    for (const state of ['ready', 'rotten']) {
      expect((await world.row(bad))?.state).toBe(state as never);
      expect(await compactAll()).toBe(0);
      await client.read([bad]);
    }
    await client.mend(bad);
    expect(await compactAll()).toBe(0);
    await client.send([bad]);
    expect(await compactAll()).toBe(live.length - 1);
    await outliveUrls();
    expect(world.objects()).not.toContain(pack);
    await expectWhole(live);
  });
});
