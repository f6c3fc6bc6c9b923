/** The removals of a purge in a Space besides nodes and uploads (core/tenancy-ports.ts). */
import { expect, test } from 'bun:test';
import { discardOf, hashAt, insertNodes, NOW, newGeneration, readyNode } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

export function testPurge(subject: StoreUnderTest): void {
  const space = { appId: 'purge', spaceId: 'space' };
  const other = { appId: 'purge', spaceId: 'other' };

  const commit = (
    of: typeof space,
    domain: string,
    revision: number,
    hash: string,
    before: number,
    after: number,
  ) =>
    subject.store.transact(of, (tx) =>
      tx.insertRootRefCommit(
        domain,
        { requestId: `r${revision}`, payloadDigest: new Uint8Array(32), revision },
        [{ hash, before, after }],
      ),
    );

  test('a purge takes the balances of a hash in all domains, and no earlier revision is read again', async () => {
    const { store } = subject;
    for (const each of [space, other]) {
      await insertNodes(store, each, [readyNode(hashAt(1)), readyNode(hashAt(2))]);
      await commit(each, 'a', 1, hashAt(1), 0, 3);
      await store.transact(each, (tx) => tx.noteWalk('a'));
      await commit(each, 'a', 2, hashAt(2), 0, 1);
      await commit(each, 'a', 3, hashAt(2), 1, 2);
      await commit(each, 'b', 1, hashAt(1), 0, -2);
    }
    const taken: string[] = [];
    for (let steps = 0; ; steps += 1) {
      expect(steps).toBeLessThan(10);
      const hashes = await store.transact(space, (tx) => tx.purging.takeBalances(1));
      if (hashes.length === 0) break;
      expect(hashes).toHaveLength(1);
      taken.push(...hashes);
    }
    expect(taken.toSorted()).toEqual([hashAt(1), hashAt(2)]);
    while ((await store.transact(space, (tx) => tx.purging.removeHistory(1))) > 0);
    const read = (of: typeof space, revision: number | 'current') =>
      store.findBalancesAt(of, 'a', { revision, after: undefined, limit: 10 });
    expect((await read(space, 'current'))?.items).toEqual([]);
    for (const revision of [1, 2, 3]) expect(await read(space, revision)).toBe(undefined);
    const known = await store.transact(space, (tx) => tx.findRootRefCommit('a', 'r1'));
    expect(known).toBe(undefined);
    expect((await read(other, 3))?.items).toHaveLength(2);
    expect((await read(other, 2))?.items).toHaveLength(2);
  });

  test('a purge leaves the history of what was committed since it took balances', async () => {
    const { store } = subject;
    await insertNodes(store, space, [readyNode(hashAt(1))]);
    await commit(space, 'a', 1, hashAt(1), 0, 3);
    await store.transact(space, (tx) => tx.noteWalk('a'));
    await store.transact(space, (tx) => tx.purging.takeBalances(10));
    await commit(space, 'a', 3, hashAt(1), 0, 1);
    await commit(space, 'a', 4, hashAt(1), 1, 2);
    while ((await store.transact(space, (tx) => tx.purging.removeHistory(1))) > 0);
    const read = await store.findBalancesAt(space, 'a', { revision: 3, after: undefined, limit: 10 });
    expect(read?.items).toEqual([{ hash: hashAt(1), balance: 1 }]);
  });

  test('a purge takes the balances of given hashes alone', async () => {
    const { store } = subject;
    await insertNodes(store, space, [readyNode(hashAt(1)), readyNode(hashAt(2))]);
    await commit(space, 'a', 1, hashAt(1), 0, 3);
    await commit(space, 'a', 2, hashAt(2), 0, 1);
    await commit(space, 'b', 1, hashAt(1), 0, 2);
    await store.transact(space, (tx) => tx.purging.takeBalances([hashAt(1), hashAt(9)]));
    const read = (domain: string, revision: number | 'current') =>
      store.findBalancesAt(space, domain, { revision, after: undefined, limit: 10 });
    expect((await read('a', 'current'))?.items).toEqual([{ hash: hashAt(2), balance: 1 }]);
    expect((await read('b', 'current'))?.items).toEqual([]);
    for (const revision of [1, 2]) expect(await read('a', revision)).toBe(undefined);
  });

  test('a purge finds the discards that are kept, and not those that wait for a URL', async () => {
    const { store } = subject;
    const [due, first, second, again] = [newGeneration(), newGeneration(), newGeneration(), newGeneration()];
    const kept = [
      discardOf(first, { dueAt: NOW + 10 }),
      discardOf(second, { dueAt: NOW + 11, urlExpiresAt: NOW + 20 }),
    ];
    for (const row of [
      discardOf(due, { dueAt: NOW + 5 }),
      ...kept,
      discardOf(again, { dueAt: NOW + 12, urlExpiresAt: NOW + 12 }),
    ]) {
      await store.transact(space, (tx) => tx.insert('discard', row));
    }
    const find = (of: typeof space, limit: number) =>
      store.transact(of, (tx) => tx.purging.findKeptDiscards(NOW + 5, limit));
    expect(await find(space, 10)).toEqual(kept);
    expect(await find(space, 1)).toEqual(kept.slice(0, 1));
    expect(await find(other, 10)).toEqual([]);
  });
}
