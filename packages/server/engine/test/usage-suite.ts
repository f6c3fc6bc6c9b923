/** Counters follow the rows exactly, at every commit and at every instant (docs/api.md, getUsage). */
import { expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import fc from 'fast-check';
import type { Awaitable } from '../../core/awaitable.ts';
import type { NodeRow, NodeRowState, Space, SpaceCounters } from '../../core/model.ts';
import type { MetadataStore } from '../../core/ports.ts';
import { hashAt, insertNodes, NOW, readNode, readyNode, SPACE, updateNode } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

function countAt({ store, clock }: StoreUnderTest, space: Space, now: number): Awaitable<SpaceCounters> {
  clock.set(now);
  return store.readCounters(space);
}

const CUTOFFS = { abandonedAt: 0, historyAt: 0 };

export function testUsage(subject: StoreUnderTest): void {
  test('a Space that was never written has nothing', async () => {
    expect(await countAt(subject, SPACE, NOW)).toEqual(recount([], NOW));
  });

  test('leases end at their instant, with and without upkeep, and also if the clock steps back', async () => {
    const expiries = [NOW - 5, NOW, NOW + 1, NOW + 1, NOW + 10, NOW + 10_000];
    const rows = expiries.map((leaseExpiresAt, index) =>
      readyNode(hashAt(index), { leaseExpiresAt, childRefCount: index % 2 }),
    );
    await insertNodes(subject.store, SPACE, rows);
    for (const upkeepAt of [0, NOW + 1, NOW + 10, NOW + 20_000]) {
      if (upkeepAt !== 0) await keepUp(subject.store, upkeepAt);
      for (const now of [NOW - 10, NOW, NOW + 1, NOW + 9, NOW + 10, NOW + 10_000]) {
        const { leasedNodeCount } = await countAt(subject, SPACE, now);
        expect(leasedNodeCount).toBe(recount(rows, now).leasedNodeCount);
      }
    }
  });

  test('upkeep of more leases than one step passes keeps every answer exact', async () => {
    const rows = Array.from({ length: 5000 }, (_, index) =>
      readyNode(hashAt(index), { leaseExpiresAt: NOW + Math.floor(index / 3) + 1 }),
    );
    await insertNodes(subject.store, SPACE, rows);
    let steps = 0;
    while ((await subject.store.maintain({ now: NOW + 1200, ...CUTOFFS })).moreToDo) {
      steps += 1;
      expect(steps).toBeLessThan(100);
      expect((await countAt(subject, SPACE, NOW + 1200)).leasedNodeCount).toBe(5000 - 3600);
    }
    expect(steps).toBeGreaterThan(0);
    expect((await countAt(subject, SPACE, NOW + 1200)).leasedNodeCount).toBe(5000 - 3600);
    expect((await countAt(subject, SPACE, NOW + 2000)).leasedNodeCount).toBe(0);
  });

  test('a lease that ended before the watermark and is taken again counts once', async () => {
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1), { leaseExpiresAt: NOW + 1 })]);
    await keepUp(subject.store, NOW + 5);
    await updateNode(subject.store, SPACE, hashAt(1), { leaseExpiresAt: NOW + 50 });
    expect((await countAt(subject, SPACE, NOW + 6)).leasedNodeCount).toBe(1);
    await updateNode(subject.store, SPACE, hashAt(1), { leaseExpiresAt: NOW + 60 });
    expect((await countAt(subject, SPACE, NOW + 55)).leasedNodeCount).toBe(1);
    expect((await countAt(subject, SPACE, NOW + 60)).leasedNodeCount).toBe(0);
  });

  test('counters equal a recount after any sequence of row verbs, failures and upkeep', async () => {
    let run = 0;
    const property = fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      run += 1;
      const space = { appId: 'property', spaceId: String(run) };
      const rows = new Map<Hash, NodeRow>();
      let now = NOW;
      for (const { verb, node, state, lease, count, ahead } of steps) {
        now += ahead;
        subject.clock.set(now);
        const hash = hashAt(node);
        const changes: Partial<NodeRow> = {
          state,
          leaseExpiresAt: Math.max(0, now + lease),
          childRefCount: count,
          waitingTouchedAt: state === 'waiting' ? now : 0,
        };
        if (verb === 'upkeep') await keepUp(subject.store, now);
        else if (verb === 'fail') await failToChange(subject.store, space, hash, changes);
        else await change(subject.store, space, rows, verb, hash, changes);
        expect(await countAt(subject, space, now)).toEqual(recount([...rows.values()], now));
      }
    });
    await fc.assert(property, { numRuns: 25 });
  });
}

const step = fc.record({
  verb: fc.constantFrom('insert', 'update', 'renew', 'delete', 'fail', 'upkeep'),
  node: fc.nat({ max: 5 }),
  state: fc.constantFrom<NodeRowState>('waiting', 'ready', 'rotten', 'claimed'),
  lease: fc.integer({ min: -50, max: 100 }),
  count: fc.nat({ max: 2 }),
  ahead: fc.nat({ max: 60 }),
});

async function change(
  store: MetadataStore,
  space: { appId: string; spaceId: string },
  rows: Map<Hash, NodeRow>,
  verb: string,
  hash: Hash,
  changes: Partial<NodeRow>,
): Promise<void> {
  const current = rows.get(hash);
  await store.transact(space, async (tx) => {
    if (current === undefined) {
      const row = readyNode(hash, changes);
      await tx.insert('node', row);
      rows.set(hash, row);
    } else if (verb === 'delete') {
      await tx.delete('node', await readNode(tx, hash));
      rows.delete(hash);
    } else {
      const { leaseExpiresAt = 0 } = changes;
      const after = { ...current, ...(verb === 'renew' ? { leaseExpiresAt } : changes) };
      await tx.update('node', await readNode(tx, hash), after);
      rows.set(hash, after);
    }
  });
}

async function failToChange(
  store: MetadataStore,
  space: { appId: string; spaceId: string },
  hash: Hash,
  changes: Partial<NodeRow>,
): Promise<void> {
  const failing = store.transact(space, async (tx) => {
    const row = await tx.findNode(hash);
    if (row === undefined) await tx.insert('node', readyNode(hash, changes));
    else await tx.update('node', row, { ...row, ...changes });
    throw new Error('stop');
  });
  await failing.catch(() => undefined);
}

async function keepUp(store: MetadataStore, now: number): Promise<void> {
  for (let steps = 0; (await store.maintain({ now, ...CUTOFFS })).moreToDo; steps++)
    expect(steps).toBeLessThan(1000);
}

function recount(rows: readonly NodeRow[], now: number): SpaceCounters {
  const ready = rows.filter(({ state }) => state === 'ready');
  const sum = (of: readonly NodeRow[], field: 'size' | 'canonicalSize') =>
    of.reduce((total, row) => total + row[field], 0);
  return {
    nodeCount: rows.length,
    readyContentBytes: sum(ready, 'size'),
    readyStoredBytes: sum(ready, 'canonicalSize'),
    waitingBytes: sum(
      rows.filter(({ state }) => state === 'waiting'),
      'canonicalSize',
    ),
    notReadyNodeCount: rows.length - ready.length,
    leasedNodeCount: rows.filter(({ leaseExpiresAt }) => leaseExpiresAt > now).length,
  };
}
