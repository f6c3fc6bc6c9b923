/** The repair of a damaged row of a node (core/upkeep-ports.ts), on intact rows. */
import { expect, test } from 'bun:test';
import { hashAt, insertNodes, NOW, readyNode, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const refsTo = (...indexes: readonly number[]): Uint8Array =>
  Uint8Array.fromHex(indexes.map(hashAt).join(''));

export function testMending(subject: StoreUnderTest): void {
  test('a row as it stands says which values have its sum', async () => {
    const lease = { leaseStartedAt: NOW, leaseExpiresAt: NOW + 1_000 };
    const row = readyNode(hashAt(1), { childRefCount: 3, refs: refsTo(2), ...lease });
    await insertNodes(subject.store, SPACE, [row]);
    await subject.store.transact(SPACE, async (tx) => {
      expect(await tx.mending.findUnproven(hashAt(2))).toBeUndefined();
      const found = await tx.mending.findUnproven(row.hash);
      expect(found?.row).toEqual(row);
      expect(found?.hasSumOf(row)).toBe(true);
      for (const change of [{ childRefCount: 2 }, { state: 'rotten' as const }, { refs: refsTo(3) }])
        expect(found?.hasSumOf({ ...row, ...change })).toBe(false);
    });
  });

  test('holders are the refs and the balances that name a hash, in that Space', async () => {
    const nodes = [
      readyNode(hashAt(1)),
      readyNode(hashAt(2), { refs: refsTo(1, 3, 1) }),
      readyNode(hashAt(3), { refs: refsTo(1) }),
    ];
    await insertNodes(subject.store, SPACE, nodes);
    await insertNodes(subject.store, { appId: 'other', spaceId: 'other' }, nodes.slice(0, 2));
    for (const [domain, balance] of [
      ['one', 5],
      ['two', -2],
    ] as const) {
      await subject.store.transact(SPACE, async (tx) => {
        const commit = { requestId: domain, payloadDigest: new Uint8Array(32), revision: 1 };
        await tx.insertRootRefCommit(domain, commit, [{ hash: hashAt(1), before: 0, after: balance }]);
      });
    }
    await subject.store.transact(SPACE, async (tx) => {
      const held = { childRefCount: 3, rootRefCount: 3, heldDomainCount: 2 };
      expect(await (await tx.mending.findUnproven(hashAt(1)))?.countHolders()).toEqual(held);
      const free = { childRefCount: 1, rootRefCount: 0, heldDomainCount: 0 };
      expect(await (await tx.mending.findUnproven(hashAt(3)))?.countHolders()).toEqual(free);
    });
  });

  test('a node is doubted if a balance names it, or a row near it', async () => {
    const [balanced, free] = ['5e'.repeat(32), 'a7'.repeat(32)];
    const near = ['c1'.repeat(32), `81${'c1'.repeat(31)}`, '33'.repeat(32), `${'33'.repeat(31)}32`];
    const hashes = [balanced, free, ...near];
    for (const space of [SPACE, { appId: 'other', spaceId: 'other' }])
      await insertNodes(
        subject.store,
        space,
        hashes.map((hash) => readyNode(hash)),
      );
    await subject.store.transact(SPACE, async (tx) => {
      const commit = { requestId: 'one', payloadDigest: new Uint8Array(32), revision: 1 };
      await tx.insertRootRefCommit('one', commit, [{ hash: balanced, before: 0, after: 1 }]);
    });
    await subject.store.transact(SPACE, async (tx) => {
      expect((await tx.mending.findDoubted(hashes)).toSorted()).toEqual([balanced, ...near].toSorted());
      expect(await tx.mending.findDoubted([free])).toEqual([]);
    });
  });

  test('a row near a node is found wherever they differ, however many nodes there are', async () => {
    const others = Array.from({ length: 300 }, (_, index) => Bun.SHA256.hash(`node ${index}`, 'hex'));
    const pairs = [0, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 17, 31, 32, 33, 100, 255].map((bit) => {
      const near = Uint8Array.fromHex(Bun.SHA256.hash(`near ${bit}`, 'hex'));
      const node = near.toHex();
      near[bit >> 3] = (near[bit >> 3] as number) ^ (0x80 >> (bit & 7));
      return [node, near.toHex()];
    });
    const insert = (hashes: readonly string[]) =>
      insertNodes(
        subject.store,
        SPACE,
        hashes.map((hash) => readyNode(hash)),
      );
    const findDoubted = (hashes: readonly string[]) =>
      subject.store.transact(SPACE, async (tx) => (await tx.mending.findDoubted(hashes)).toSorted());
    const doubted = pairs.flat();
    await insert(doubted);
    expect(await findDoubted(doubted)).toEqual(doubted.toSorted());
    await insert(others);
    expect(await findDoubted([...others, ...doubted])).toEqual(doubted.toSorted());
  });

  test('a row is replaced with all that it says, and of the counters only that of leases follows', async () => {
    const before = readyNode(hashAt(1), { refs: refsTo(2) });
    await insertNodes(subject.store, SPACE, [before]);
    const counters = await subject.store.readCounters(SPACE);
    const lease = { leaseStartedAt: NOW, leaseExpiresAt: NOW + 1_000 };
    const after = { ...before, refs: refsTo(3, 3), size: 7, contentType: 'x/y', childRefCount: 4, ...lease };
    await subject.store.transact(SPACE, async (tx) => {
      const stands = await tx.mending.findUnproven(before.hash);
      if (stands === undefined) throw new Error('there is no row');
      await tx.mending.replaceNode(stands.row, after);
      expect(await tx.findNode(before.hash)).toEqual(after);
    });
    const store = await subject.reopen();
    expect(await store.findNode(SPACE, before.hash)).toEqual(after);
    expect(await store.readCounters(SPACE)).toEqual({ ...counters, leasedNodeCount: 1 });
  });
}
