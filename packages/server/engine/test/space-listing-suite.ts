/** Spaces of all Apps with their counters, page by page, and the sum of an App (core/tenancy-ports.ts). */
import { expect, test } from 'bun:test';
import type { SpaceEntry } from '../../core/tenancy-ports.ts';
import { hashAt, insertNodes, NOW, openUpload, readyNode } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

export function testSpaceListing(subject: StoreUnderTest): void {
  const nameOf = ({ space }: SpaceEntry): string => `${space.appId}/${space.spaceId}`;

  async function walk(limit: number, appId?: string): Promise<readonly SpaceEntry[]> {
    const found: SpaceEntry[] = [];
    for (let after: string | undefined, pages = 0; ; pages++) {
      expect(pages).toBeLessThan(30);
      const page = await subject.store.page('spaces', { appId, after, limit });
      found.push(...page);
      if (page.length < limit) return found;
      after = page.at(-1)?.position;
    }
  }

  async function fill(): Promise<void> {
    for (const [appId, count] of [
      ['a', 3],
      ['A', 1],
      ['b', 2],
    ] as const) {
      for (let index = 0; index < count; index++) {
        const rows = Array.from({ length: index + 1 }, (_, node) =>
          readyNode(hashAt(node), { leaseExpiresAt: node === 0 ? NOW + 5 : NOW - 5 }),
        );
        await insertNodes(subject.store, { appId, spaceId: `s${index}` }, rows);
      }
    }
  }

  test('Spaces are listed in pages of any size, each once, with their counters', async () => {
    expect(await walk(3)).toEqual([]);
    await fill();
    const all = await walk(100);
    expect(all.map(nameOf).toSorted()).toEqual(['A/s0', 'a/s0', 'a/s1', 'a/s2', 'b/s0', 'b/s1']);
    for (const limit of [1, 2, 3, 6]) expect(await walk(limit)).toEqual(all);
    for (const { space, counters } of all) expect(counters).toEqual(await subject.store.readCounters(space));
    expect(all.every(({ counters }) => counters?.leasedNodeCount === 1)).toBe(true);
  });

  test('the Spaces of one App are listed alone, and their sum is right', async () => {
    await fill();
    for (const limit of [1, 2, 10]) {
      expect((await walk(limit, 'a')).map(nameOf).toSorted()).toEqual(['a/s0', 'a/s1', 'a/s2']);
      expect(await walk(limit, 'nobody')).toEqual([]);
    }
    expect(await subject.store.readAppTotals('a')).toEqual({
      spaces: 3,
      nodeCount: 6,
      readyContentBytes: 600,
      readyStoredBytes: 804,
      waitingBytes: 0,
      notReadyNodeCount: 0,
      pendingBytes: 0,
      commitRows: 0,
    });
    expect(await subject.store.readAppTotals('nobody')).toMatchObject({ spaces: 0, nodeCount: 0 });
  });
}

/** The sums that quotas judge by. */
export function testStored(subject: StoreUnderTest): void {
  const space = { appId: 'quota', spaceId: 'space' };

  test('a transaction counts ready and waiting bytes and all rows as stored, its own writes included', async () => {
    const read = () => subject.store.transact(space, (tx) => tx.lockStored());
    expect(await read()).toEqual({ bytes: 0, nodes: 0 });
    await insertNodes(subject.store, space, [
      readyNode(hashAt(1)),
      readyNode(hashAt(2), { state: 'waiting' }),
      readyNode(hashAt(3), { state: 'rotten' }),
    ]);
    expect(await read()).toEqual({ bytes: 268, nodes: 3 });
    const inside = await subject.store.transact(space, async (tx) => {
      await tx.insert('node', readyNode(hashAt(4)));
      return tx.lockStored();
    });
    expect(inside).toEqual({ bytes: 402, nodes: 4 });
  });

  test('many transactions at once never store more than they saw room for', async () => {
    // The row of the Space exists, as after any first upload.
    await subject.store.transact(space, (tx) => tx.insert('upload', openUpload(hashAt(99))));
    const store = (index: number): Promise<boolean> =>
      subject.store.transact(space, async (tx) => {
        const hash = hashAt(index);
        await tx.findNode(hash);
        await tx.findLooseEdges([hash]);
        const { nodes } = await tx.lockStored();
        if (nodes >= 7) return false;
        await tx.insert('node', readyNode(hash));
        return true;
      });
    const stored = await Promise.all(Array.from({ length: 24 }, (_, index) => store(index)));
    expect(stored.filter(Boolean)).toHaveLength(7);
    expect((await subject.store.readCounters(space)).nodeCount).toBe(7);
  });
}
