/** Node rows, loose edges, content rows, discards, and the walks over them. */
import { expect, test } from 'bun:test';
import type { DiscardRow, NodeRow } from '../../core/model.ts';
import {
  discardOf,
  hashAt,
  insertNodes,
  NOW,
  newGeneration,
  readNode,
  readyNode,
  SPACE,
  updateNode,
} from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

export function testNodeRows(subject: StoreUnderTest): void {
  test('absent rows are undefined, in any Space', async () => {
    expect(await subject.store.findNode(SPACE, hashAt(1))).toBeUndefined();
    expect(await subject.store.findNodeWithContent(SPACE, hashAt(1))).toBeUndefined();
    expect(await subject.store.transact(SPACE, (tx) => tx.findNode(hashAt(1)))).toBeUndefined();
    expect(await subject.store.transact(SPACE, (tx) => tx.findNodes([hashAt(1)]))).toEqual([undefined]);
  });

  test('every field of a row survives, in every state and at the largest values', async () => {
    const largest = Number.MAX_SAFE_INTEGER;
    const rows: NodeRow[] = (['waiting', 'ready', 'rotten', 'claimed'] as const).map((state, index) =>
      readyNode(hashAt(index), {
        state,
        size: largest - 34,
        contentType: `text/plain; charset="${'x'.repeat(900)}"`,
        refs: new Uint8Array(256 * 32).map((_, byte) => byte & 0xff),
        storage: index % 2 === 0 ? 'inline' : 'object',
        leaseStartedAt: largest - 1,
        leaseExpiresAt: largest,
        childRefCount: largest,
        rootRefCount: largest,
        heldDomainCount: 3,
        waitingTouchedAt: state === 'waiting' ? NOW : 0,
        claimHeldUntil: state === 'claimed' ? largest : 0,
      }),
    );
    for (const row of rows) await insertNodes(subject.store, { appId: 'a', spaceId: row.state }, [row]);
    for (const row of rows) {
      expect(await subject.store.findNode({ appId: 'a', spaceId: row.state }, row.hash)).toEqual(row);
    }
  });

  test('updateNode changes what may change and nothing else', async () => {
    const row = readyNode(hashAt(1));
    await insertNodes(subject.store, SPACE, [row]);
    const steps: Partial<NodeRow>[] = [
      { leaseStartedAt: NOW, leaseExpiresAt: NOW + 10 },
      { childRefCount: 2 },
      { rootRefCount: 5, heldDomainCount: 1 },
      { state: 'rotten' },
      { state: 'ready', generation: newGeneration(), storage: 'object' },
      { childRefCount: 0, rootRefCount: 0, heldDomainCount: 0 },
      { state: 'claimed', claimHeldUntil: NOW + 10 },
      { claimHeldUntil: 0 },
    ];
    let expected = row;
    for (const step of steps) {
      await updateNode(subject.store, SPACE, row.hash, step);
      expected = { ...expected, ...step };
      expect(await subject.store.findNode(SPACE, row.hash)).toEqual(expected);
      expect(await subject.store.transact(SPACE, (tx) => tx.findNode(row.hash))).toEqual(expected);
    }
  });

  test('findNodes answers in the order of the request, with duplicates and absent rows', async () => {
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(2)), readyNode(hashAt(1))]);
    const found = await subject.store.transact(SPACE, (tx) =>
      tx.findNodes([hashAt(2), hashAt(9), hashAt(1), hashAt(2)]),
    );
    expect(found.map((row) => row?.hash)).toEqual([hashAt(2), undefined, hashAt(1), hashAt(2)]);
  });

  test('what a transaction has made itself it may change, walk over and delete', async () => {
    const [kept, deleted] = [readyNode(hashAt(1)), readyNode(hashAt(2))];
    const changed = { ...kept, childRefCount: 3 };
    await subject.store.transact(SPACE, async (tx) => {
      await tx.insert('node', kept);
      await tx.insert('node', deleted);
      expect(await tx.due('candidates', undefined, 9)).toEqual([kept, deleted]);
      await tx.update('node', kept, changed);
      await tx.delete('node', deleted);
      const leased = readyNode(hashAt(3));
      await tx.insert('node', leased);
      await tx.update('node', leased, { ...leased, leaseStartedAt: NOW, leaseExpiresAt: NOW + 1 });
      expect(await tx.due('candidates', undefined, 9)).toEqual([]);
    });
    expect(await subject.store.findNode(SPACE, kept.hash)).toEqual(changed);
    expect(await subject.store.findNode(SPACE, deleted.hash)).toBeUndefined();
    expect(await subject.store.findNode(SPACE, hashAt(3))).toMatchObject({ leaseExpiresAt: NOW + 1 });
  });

  test('deleteNode forgets the row; a new one may take its place', async () => {
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1))]);
    await subject.store.transact(SPACE, async (tx) => tx.delete('node', await readNode(tx, hashAt(1))));
    expect(await subject.store.findNode(SPACE, hashAt(1))).toBeUndefined();
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1), { size: 7 })]);
    expect((await subject.store.findNode(SPACE, hashAt(1)))?.size).toBe(7);
  });

  test('loose edges are a count per hash, 0 when none', async () => {
    const [one, two, none] = [hashAt(1), hashAt(2), hashAt(3)];
    const find = (hashes: string[]) => subject.store.transact(SPACE, (tx) => tx.findLooseEdges(hashes));
    expect(await find([one, none])).toEqual([0, 0]);
    await subject.store.transact(SPACE, async (tx) => {
      await tx.setLooseEdges(one, 3);
      await tx.setLooseEdges(two, 5);
      expect(await tx.findLooseEdges([two, none, one, two])).toEqual([5, 0, 3, 5]);
      await tx.setLooseEdges(two, 4);
    });
    expect(await find([two, none, one])).toEqual([4, 0, 3]);
    await subject.store.transact(SPACE, (tx) => tx.setLooseEdges(one, 0));
    expect(await find([one, two])).toEqual([0, 4]);
    await subject.store.transact(SPACE, (tx) => tx.setLooseEdges(one, 0));
    expect(await find([])).toEqual([]);
  });

  test('content is write-once, read with its node, and gone when deleted', async () => {
    const row = readyNode(hashAt(1));
    const bytes = new Uint8Array(134).fill(5);
    const content = {
      generation: row.generation,
      canonicalSize: 134,
      integrity: new Uint8Array([1, 2, 3]),
      inlineBytes: bytes,
      urlExpiresAt: NOW + 300,
    };
    await insertNodes(subject.store, SPACE, [row]);
    expect(await subject.store.findNodeWithContent(SPACE, row.hash)).toEqual({
      node: row,
      content: undefined,
    });
    await subject.store.transact(SPACE, (tx) => tx.insert('content', content));
    expect(await subject.store.findNodeWithContent(SPACE, row.hash)).toEqual({ node: row, content });
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(row.generation))).toEqual(content);
    const again = subject.store.transact(SPACE, (tx) =>
      tx.insert('content', { ...content, inlineBytes: undefined }),
    );
    expect(again).rejects.toThrow();
    await again.catch(() => undefined);
    expect(await subject.store.findNodeWithContent(SPACE, row.hash)).toEqual({ node: row, content });
    await subject.store.transact(SPACE, (tx) => tx.delete('content', row.generation));
    await subject.store.transact(SPACE, (tx) => tx.delete('content', row.generation));
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(row.generation))).toBeUndefined();
  });

  test('content without inline bytes, and content of another Space', async () => {
    const generation = newGeneration();
    const content = {
      generation,
      canonicalSize: 9,
      integrity: new Uint8Array(0),
      inlineBytes: undefined,
      urlExpiresAt: 0,
    };
    await subject.store.transact(SPACE, (tx) => tx.insert('content', content));
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(generation))).toEqual(content);
    const other = { appId: 'other', spaceId: 'space' };
    expect(await subject.store.transact(other, (tx) => tx.findContent(generation))).toBeUndefined();
    await subject.store.transact(other, (tx) => tx.delete('content', generation));
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(generation))).toEqual(content);
  });

  test('candidates are the eligible rows by expiry, then hash, no more than asked', async () => {
    const rows = [
      readyNode(hashAt(5), { leaseExpiresAt: NOW - 10 }),
      readyNode(hashAt(4), { leaseExpiresAt: NOW }),
      readyNode(hashAt(3), { leaseExpiresAt: NOW + 1 }),
      readyNode(hashAt(2), { leaseExpiresAt: NOW - 10, state: 'rotten' }),
      readyNode(hashAt(1)),
      readyNode(hashAt(6), { state: 'waiting', waitingTouchedAt: 1 }),
      readyNode(hashAt(7), { state: 'claimed' }),
      readyNode(hashAt(8), { childRefCount: 1 }),
      readyNode(hashAt(9), { rootRefCount: 1, heldDomainCount: 1 }),
      readyNode(hashAt(10), { heldDomainCount: 2 }),
    ];
    await insertNodes(subject.store, SPACE, rows);
    await insertNodes(subject.store, { appId: 'app', spaceId: 'other' }, [readyNode(hashAt(11))]);
    const find = (limit: number) =>
      subject.store.transact(SPACE, (tx) => tx.due('candidates', undefined, limit));
    const order = [hashAt(1), hashAt(2), hashAt(5), hashAt(4)];
    expect((await find(100)).map(({ hash }) => hash)).toEqual(order);
    expect((await find(2)).map(({ hash }) => hash)).toEqual(order.slice(0, 2));
    await updateNode(subject.store, SPACE, hashAt(8), { childRefCount: 0 });
    await updateNode(subject.store, SPACE, hashAt(1), { rootRefCount: 1, heldDomainCount: 1 });
    expect((await find(100)).map(({ hash }) => hash)).toEqual([hashAt(8), hashAt(2), hashAt(5), hashAt(4)]);
    expect((await find(1))[0]).toEqual({ ...(rows[7] as NodeRow), childRefCount: 0 });
  });

  test('abandoned waiting rows are found, bounded', async () => {
    const waiting = [4, 2, 3].map((index) =>
      readyNode(hashAt(index), { state: 'waiting', waitingTouchedAt: NOW + index }),
    );
    await insertNodes(subject.store, SPACE, [...waiting, readyNode(hashAt(9))]);
    await subject.store.transact(SPACE, async (tx) => {
      const abandoned = await tx.due('waiting', NOW + 3, 10);
      expect(abandoned.map(({ hash }) => hash).sort()).toEqual([hashAt(2), hashAt(3)]);
      expect((await tx.due('waiting', NOW + 3, 1)).length).toBe(1);
      expect(await tx.due('waiting', NOW + 1, 10)).toEqual([]);
    });
  });

  test('claims are found once their hold is over, bounded', async () => {
    const claimed = [7, 6, 5].map((index) =>
      readyNode(hashAt(index), { state: 'claimed', claimHeldUntil: NOW + index }),
    );
    const free = readyNode(hashAt(4), { state: 'claimed' });
    await insertNodes(subject.store, SPACE, [...claimed, free, readyNode(hashAt(9))]);
    const find = async (at: number, limit: number) => {
      const found = await subject.store.transact(SPACE, (tx) => tx.due('claimed', at, limit));
      return found.map(({ hash }) => hash).sort();
    };
    expect(await find(NOW, 10)).toEqual([hashAt(4)]);
    expect(await find(NOW + 6, 10)).toEqual([hashAt(4), hashAt(5), hashAt(6)]);
    expect((await find(NOW + 6, 2)).length).toBe(2);
    await updateNode(subject.store, SPACE, hashAt(7), { claimHeldUntil: 0 });
    await updateNode(subject.store, SPACE, hashAt(5), { claimHeldUntil: NOW + 20 });
    await updateNode(subject.store, SPACE, hashAt(4), { state: 'ready' });
    expect(await find(NOW + 10, 10)).toEqual([hashAt(6), hashAt(7)]);
  });

  test('discards are found when they are due, earliest first, and kept until removed', async () => {
    const [first, second, third] = [newGeneration(), newGeneration(), newGeneration()];
    const set = (row: DiscardRow) => subject.store.transact(SPACE, (tx) => tx.insert('discard', row));
    const find = (at: number, limit: number) =>
      subject.store.transact(SPACE, (tx) => tx.due('discards', at, limit));
    const late = discardOf(first, { dueAt: NOW + 5, urlExpiresAt: NOW + 5 });
    await set(late);
    await set(discardOf(second, { dueAt: NOW + 2, urlExpiresAt: NOW + 9 }));
    await set(discardOf(third));
    expect(await find(NOW - 1, 10)).toEqual([]);
    expect(await find(NOW, 10)).toEqual([discardOf(third)]);
    expect((await find(NOW + 5, 10)).map(({ generation }) => generation)).toEqual([third, second, first]);
    expect((await find(NOW + 5, 2)).length).toBe(2);
    // Recorded again it is one record, as it was set last.
    const again = discardOf(second, { dueAt: NOW + 9, urlExpiresAt: NOW + 9 });
    await set(again);
    await subject.store.transact(SPACE, (tx) => tx.delete('discard', third));
    expect(await find(NOW + 9, 10)).toEqual([late, again]);
    const other = { appId: 'other', spaceId: 'space' };
    expect(await subject.store.transact(other, (tx) => tx.due('discards', NOW + 9, 10))).toEqual([]);
  });
}
