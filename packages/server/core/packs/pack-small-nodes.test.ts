/** Compaction of small nodes: which ones it moves, and what it must never lose or double (core/packs/README.md). */
import { describe, expect, test } from 'bun:test';
import { type CanonicalNode, makeNode } from '../../../../test/support/canonical-node.ts';
import { runGc } from '../collect/run-gc.ts';
import { scrub } from '../collect/scrub.ts';
import type { Core } from '../core.ts';
import { PACK_GROUP_RECORDS } from '../pack-ports.ts';
import { getUsage } from '../read/get-usage.ts';
import { readContent } from '../read/read-content.ts';
import { StoreUnavailable } from '../store-failure.ts';
import { TOMBSTONE_MS } from '../stray-watch.ts';
import {
  CALLER,
  type CoreWorld,
  DAY_MS,
  MINUTE_MS,
  objectNode,
  SPACE,
  smallNode,
} from '../test/core-fixture.ts';
import { beforeTransactions, PACK_RECEIVERS, type PackClient, usePackWorld } from '../test/pack-fixture.ts';
import { moveSmall, PACKING_RULES, type PackingWalk, packSmallNodes } from './pack-small-nodes.ts';

const STEPS_MAX = 50;
/** More than the engine takes to walk over all its folders. */
const STRAY_WALK_STEPS = 20;
const FEW = { ...PACKING_RULES, nodesMin: 3 };

describe.each(PACK_RECEIVERS)('%s', (_, isDirect) => {
  let world: CoreWorld;
  let client: PackClient;
  usePackWorld(isDirect, (opened, itsClient) => {
    world = opened;
    client = itsClient;
  });

  /** The smallest that is an object of its own: incompressible. */
  const nodeOf = (seed: number, refs: readonly string[] = []): CanonicalNode =>
    isDirect ? smallNode(seed, refs) : objectNode(seed, refs);
  const nodesOf = (count: number, from = 0): CanonicalNode[] =>
    Array.from({ length: count }, (_, index) => nodeOf(from + index));
  /** Nodes that are ready, one object each, and a day old. */
  const publish = async (nodes: readonly CanonicalNode[]): Promise<void> => {
    for (const node of nodes) expect((await world.upload(node)).state).toBe('ready');
    await world.keep(nodes);
    world.now += DAY_MS + 1;
  };
  const packAll = async (core: Core = world.core, rules = FEW): Promise<number> => {
    let moved = 0;
    let walk: PackingWalk | undefined;
    for (let steps = 0; steps < STEPS_MAX; steps += 1) {
      const step = await packSmallNodes(core, walk, rules);
      if (step.failure !== undefined) throw step.failure;
      moved += step.moved;
      walk = step.next;
      if (walk === undefined) return moved;
    }
    throw new Error('the walk does not come to an end');
  };
  const packsOf = async (nodes: readonly CanonicalNode[]): Promise<string[]> => {
    const places = await Promise.all(nodes.map((node) => client.place(node)));
    return [...new Set(places.map(({ pack }) => pack))].sort();
  };
  const storageOf = async (node: CanonicalNode) => (await world.row(node))?.storage;
  const contentOf = async (core: Core, { hash }: CanonicalNode): Promise<Uint8Array> => {
    const { body } = await readContent(core, SPACE, hash, undefined, CALLER);
    return new Response(body as BodyInit).bytes();
  };
  const expectWhole = async (nodes: readonly CanonicalNode[]): Promise<void> => {
    const records = await client.read(nodes);
    expect(records.map(({ hash }) => hash)).toEqual(nodes.map(({ hash }) => hash));
    for (const [index, node] of nodes.entries()) {
      expect(Buffer.compare(records[index]!.stored, node.bytes)).toBe(0);
    }
    const [first] = nodes as [CanonicalNode];
    expect(Buffer.compare(await contentOf(world.core, first), first.content)).toBe(0);
    const { foundRotten, nodes: scrubbed } = await scrub(world.core, undefined);
    expect({ foundRotten, isScrubbed: scrubbed > 0 }).toEqual({ foundRotten: 0, isScrubbed: true });
  };
  const sweepTwice = async (): Promise<void> => {
    await world.sweepAll();
    await world.sweepAll();
  };

  test('objects of small nodes become records of one pack, and go', async () => {
    const text = makeNode('text '.repeat(9000));
    const nodes = [...nodesOf(4), text];
    const parent = nodeOf(50, [nodes[0]!.hash, text.hash]);
    await publish([...nodes, parent]);
    const before = await getUsage(world.core, SPACE);
    const row = await world.row(parent);
    expect(await packAll()).toBe(6);
    expect(await getUsage(world.core, SPACE)).toEqual(before);
    const { generation } = (await world.row(parent))!;
    expect(await world.row(parent)).toEqual({ ...row!, generation, storage: 'packed' });
    expect(await client.place(text)).toMatchObject({ codec: 1 });
    expect((await client.place(text)).storedLength).toBeLessThan(text.bytes.length / 10);
    await sweepTwice();
    expect([...world.objects()]).toEqual(await packsOf([...nodes, parent]));
    await expectWhole([...nodes, parent]);
    expect(await packAll()).toBe(0);
    await world.restart();
    await expectWhole([...nodes, parent]);
  });

  test('young, large and inline nodes stay, and so do few of them', async () => {
    const nodes = nodesOf(2);
    const large = makeNode(Buffer.alloc(64 * 1024, 'x'));
    const inline = isDirect ? [] : [smallNode(1), smallNode(2), smallNode(3)];
    await publish([...nodes, large, ...inline]);
    expect(await packAll()).toBe(0);
    const young = nodeOf(9);
    expect((await world.upload(young)).state).toBe('ready');
    await world.keep([young]);
    expect(await packAll()).toBe(0);
    world.now += DAY_MS;
    expect(await packAll()).toBe(0);
    world.now += 1;
    expect(await packAll()).toBe(3);
    expect(await storageOf(large)).toBe('object');
    for (const node of inline) expect(await storageOf(node)).toBe('inline');
    await expectWhole([...nodes, young, large, ...inline]);
  });

  test('what waits for children, is rotten or is damaged is passed over, and holds up no others', async () => {
    const [good, more, rotten, waiting] = [
      nodesOf(4),
      nodesOf(3, 10),
      nodeOf(20),
      nodeOf(21, ['0'.repeat(64)]),
    ];
    expect((await world.upload(rotten)).state).toBe('ready');
    expect((await world.upload(waiting)).state).toBe('validated_awaiting_children');
    await publish([...good, ...more]);
    await world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(rotten.hash))!;
      await tx.update('node', row, { ...row, state: 'rotten' });
    });
    if (!isDirect) {
      await world.spoil(more[0]!, 'flipped');
      await world.spoil(more[1]!, 'lost');
    }
    const bad = isDirect ? [] : more.slice(0, 2);
    expect(await packAll()).toBe(7 - bad.length);
    expect([await storageOf(rotten), await storageOf(waiting)]).toEqual(['object', 'object']);
    for (const node of bad)
      expect(await world.row(node)).toMatchObject({ state: 'ready', storage: 'object' });
    for (const node of bad) await world.mend(node);
    await expectWhole([...good, ...more]);
  });

  test('one object that cannot be read now is passed over; a store that is away ends the step', async () => {
    const nodes = nodesOf(12);
    await publish(nodes);
    const { generation: unreadable } = (await world.row(nodes[5]!))!;
    const reading = (read: Core['content']['read']): Core => ({
      ...world.core,
      content: { ...world.core.content, read },
    });
    const away = (isAway: (generation: string) => boolean): Core =>
      reading(async (object, ...given) => {
        if (isAway(object.generation)) throw new StoreUnavailable('planted: not now');
        return world.core.content.read(object, ...given);
      });
    await expect(packAll(away(() => true))).rejects.toThrow('planted');
    const broken = reading(() => Promise.reject(new Error('planted: a fault')));
    await expect(packAll(broken)).rejects.toThrow('planted: a fault');
    expect(await packAll(reading(async () => new Uint8Array(1)))).toBe(0);
    expect(await packAll(away((generation) => generation === unreadable))).toBe(11);
    expect(await storageOf(nodes[5]!)).toBe('object');
    await expectWhole(nodes);
  });

  test('a crash before any transaction loses and doubles nothing, and the next walk finishes the work', async () => {
    const nodes = nodesOf(isDirect ? PACK_GROUP_RECORDS + 10 : 5);
    await publish(nodes);
    for (const crashAt of isDirect ? [0, 1] : [0]) {
      const core = beforeTransactions(world.core, moveSmall, (earlier) => {
        if (earlier === crashAt) throw new Error('planted: a crash');
      });
      await expect(packAll(core)).rejects.toThrow('planted');
      await world.restart();
      await world.sweepAll();
      await expectWhole(nodes);
    }
    await packAll();
    await sweepTwice();
    await expectWhole(nodes);
    // A pack that no row ever named is a stray.
    world.now += 3 * DAY_MS;
    for (let step = 0; step < STRAY_WALK_STEPS; step += 1) await world.sweepAll();
    world.now += TOMBSTONE_MS;
    for (let step = 0; step < STRAY_WALK_STEPS; step += 1) await world.sweepAll();
    expect([...world.objects()].sort()).toEqual(await packsOf(nodes));
  });

  test('the pack is durable before a row names it, and an object goes after its row has moved', async () => {
    const nodes = nodesOf(4);
    await publish(nodes);
    const steps: string[] = [];
    const { content } = world.core;
    const core = beforeTransactions(
      {
        ...world.core,
        content: {
          ...content,
          packs: {
            ...content.packs,
            write: async (...given) => {
              steps.push('write');
              const written = await content.packs.write(...given);
              steps.push('durable');
              return written;
            },
          },
          delete: async (...given) => {
            steps.push('delete');
            return content.delete(...given);
          },
        },
      },
      moveSmall,
      () => steps.push('move'),
    );
    expect(await packAll(core)).toBe(4);
    expect(steps).toEqual(['write', 'durable', 'move']);
    for (const node of nodes) expect((await client.content(node))?.packed).toBeDefined();
  });

  test('a node that is healed, collected, claimed or leased while it is copied keeps its new state', async () => {
    const [stays, goes, healed, leased] = nodesOf(4) as [
      CanonicalNode,
      CanonicalNode,
      CanonicalNode,
      CanonicalNode,
    ];
    await publish([stays, goes, healed, leased]);
    const core = beforeTransactions(world.core, moveSmall, async () => {
      await world.core.metadata.transact(SPACE, async (tx) => {
        const dying = (await tx.findNode(goes.hash))!;
        await tx.update('node', dying, { ...dying, leaseExpiresAt: world.now });
        const row = (await tx.findNode(healed.hash))!;
        await tx.update('node', row, { ...row, state: 'rotten' });
        const short = (await tx.findNode(leased.hash))!;
        await tx.update('node', short, { ...short, leaseExpiresAt: world.now + MINUTE_MS });
      });
      expect((await runGc(world.core, SPACE, 10)).deleted).toBe(1);
      expect((await world.upload(healed)).state).toBe('ready');
      expect((await world.lease(leased, DAY_MS)).state).toBe('ready');
      expect((await client.leases([stays])).results).toMatchObject([{ state: 'ready' }]);
    });
    expect(await packAll(core)).toBe(2);
    await sweepTwice();
    expect(await world.row(goes)).toBeUndefined();
    expect(await world.row(leased)).toMatchObject({
      storage: 'packed',
      leaseExpiresAt: world.now + DAY_MS,
    });
    expect(await storageOf(healed)).toBe('object');
    await expectWhole([stays, healed, leased]);
  });

  test('a pass that claimed an object goes on with it, and its node is not moved', async () => {
    const nodes = nodesOf(4);
    await publish(nodes);
    const [dying, ...others] = nodes as [CanonicalNode, ...CanonicalNode[]];
    await world.core.metadata.transact(SPACE, async (tx) => {
      const row = (await tx.findNode(dying.hash))!;
      await tx.update('node', row, { ...row, leaseExpiresAt: world.now });
    });
    const gate = world.holdDeletes();
    const pass = runGc(world.core, SPACE, 10);
    await gate.reached;
    expect(await packAll()).toBe(3);
    gate.open();
    expect(await pass).toMatchObject({ deleted: 1 });
    await sweepTwice();
    expect([...world.objects()]).toEqual(await packsOf(others));
    await expectWhole(others);
  });

  test('a read that began at the old object continues in the pack, and nothing rots by it', async () => {
    const nodes = nodesOf(4);
    await publish(nodes);
    const [node] = nodes as [CanonicalNode];
    let isMoved = false;
    const { content } = world.core;
    const core: Core = {
      ...world.core,
      content: {
        ...content,
        findNow: () => undefined,
        read: async (...given) => {
          if (!isMoved) {
            isMoved = true;
            expect(await packAll()).toBe(4);
            await sweepTwice();
          }
          return content.read(...given);
        },
      },
    };
    expect(Buffer.compare(await contentOf(core, node), node.content)).toBe(0);
    expect(isMoved).toBe(true);
    expect(world.rotReports).toEqual([]);
    await expectWhole(nodes);
  });

  test('two that pack the same nodes at once move each once, and leave one pack', async () => {
    const nodes = nodesOf(5);
    await publish(nodes);
    let beside = 0;
    const core = beforeTransactions(world.core, moveSmall, async () => {
      beside = await packAll();
    });
    expect(await packAll(core)).toBe(0);
    expect(beside).toBe(5);
    await sweepTwice();
    expect([...world.objects()]).toEqual(await packsOf(nodes));
    await expectWhole(nodes);
  });

  test('a moved node is collected, and its pack compacted, as any other', async () => {
    const nodes = nodesOf(4);
    await publish(nodes);
    expect(await packAll()).toBe(4);
    const { readyStoredBytes } = await getUsage(world.core, SPACE);
    await world.core.metadata.transact(SPACE, async (tx) => {
      for (const { hash } of nodes.slice(1)) {
        const row = (await tx.findNode(hash))!;
        await tx.update('node', row, { ...row, leaseExpiresAt: world.now - MINUTE_MS });
      }
    });
    expect((await runGc(world.core, SPACE, 10)).deleted).toBe(3);
    const [left] = nodes as [CanonicalNode];
    const after = await getUsage(world.core, SPACE);
    expect(after.readyStoredBytes).toBe(left.bytes.length);
    expect(readyStoredBytes).toBe(nodes.reduce((sum, { bytes }) => sum + bytes.length, 0));
    await expectWhole([left]);
  });
});
