/** Node rows, loose edges, content rows, discards, and the walks over them. */
import { expect, test } from 'bun:test';
import type { NodeRow } from '../../core/model.ts';
import type { StoreUnderTest } from './metadata-store-suite.ts';
import {
  hashAt,
  insertNodes,
  NOW,
  newGeneration,
  readNode,
  readyNode,
  SPACE,
  updateNode,
} from './samples.ts';

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
        inline: index % 2 === 0,
        leaseStartedAt: largest - 1,
        leaseExpiresAt: largest,
        childRefCount: largest,
        rootRefCount: largest,
        heldDomainCount: 3,
        waitingTouchedAt: state === 'waiting' ? NOW : 0,
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
      { state: 'ready', generation: newGeneration(), inline: false },
      { childRefCount: 0, rootRefCount: 0, heldDomainCount: 0 },
      { state: 'claimed' },
    ];
    let expected = row;
    for (const step of steps) {
      await updateNode(subject.store, SPACE, row.hash, step);
      expected = { ...expected, ...step };
      expect(await subject.store.findNode(SPACE, row.hash)).toEqual(expected);
      expect(await subject.store.transact(SPACE, (tx) => tx.findNode(row.hash))).toEqual(expected);
    }
  });

  test('findNodes is aligned with what was asked, duplicates and absent ones too', async () => {
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(2)), readyNode(hashAt(1))]);
    const found = await subject.store.transact(SPACE, (tx) =>
      tx.findNodes([hashAt(2), hashAt(9), hashAt(1), hashAt(2)]),
    );
    expect(found.map((row) => row?.hash)).toEqual([hashAt(2), undefined, hashAt(1), hashAt(2)]);
  });

  test('deleteNode forgets the row; a new one may take its place', async () => {
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1))]);
    await subject.store.transact(SPACE, async (tx) => tx.deleteNode(await readNode(tx, hashAt(1))));
    expect(await subject.store.findNode(SPACE, hashAt(1))).toBeUndefined();
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1), { size: 7 })]);
    expect((await subject.store.findNode(SPACE, hashAt(1)))?.size).toBe(7);
  });

  test('loose edges are a count per hash, 0 when none', async () => {
    await subject.store.transact(SPACE, (tx) => tx.setLooseEdges(hashAt(1), 3));
    expect(await subject.store.transact(SPACE, (tx) => tx.findLooseEdges(hashAt(1)))).toBe(3);
    await subject.store.transact(SPACE, (tx) => tx.setLooseEdges(hashAt(1), 0));
    expect(await subject.store.transact(SPACE, (tx) => tx.findLooseEdges(hashAt(1)))).toBe(0);
    await subject.store.transact(SPACE, (tx) => tx.setLooseEdges(hashAt(1), 0));
  });

  test('content is write-once, read with its node, and gone when deleted', async () => {
    const row = readyNode(hashAt(1));
    const bytes = new Uint8Array(134).fill(5);
    const content = {
      generation: row.generation,
      canonicalSize: 134,
      integrity: new Uint8Array([1, 2, 3]),
      inlineBytes: bytes,
    };
    await insertNodes(subject.store, SPACE, [row]);
    expect(await subject.store.findNodeWithContent(SPACE, row.hash)).toEqual({
      node: row,
      content: undefined,
    });
    await subject.store.transact(SPACE, (tx) => tx.insertContent(content));
    expect(await subject.store.findNodeWithContent(SPACE, row.hash)).toEqual({ node: row, content });
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(row.generation))).toEqual(content);
    const again = subject.store.transact(SPACE, (tx) =>
      tx.insertContent({ ...content, inlineBytes: undefined }),
    );
    expect(again).rejects.toThrow();
    await again.catch(() => undefined);
    expect(await subject.store.findNodeWithContent(SPACE, row.hash)).toEqual({ node: row, content });
    await subject.store.transact(SPACE, (tx) => tx.deleteContent(row.generation));
    await subject.store.transact(SPACE, (tx) => tx.deleteContent(row.generation));
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(row.generation))).toBeUndefined();
  });

  test('content without inline bytes, and content of another Space', async () => {
    const generation = newGeneration();
    const content = { generation, canonicalSize: 9, integrity: new Uint8Array(0), inlineBytes: undefined };
    await subject.store.transact(SPACE, (tx) => tx.insertContent(content));
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(generation))).toEqual(content);
    const other = { appId: 'other', spaceId: 'space' };
    expect(await subject.store.transact(other, (tx) => tx.findContent(generation))).toBeUndefined();
    await subject.store.transact(other, (tx) => tx.deleteContent(generation));
    expect(await subject.store.transact(SPACE, (tx) => tx.findContent(generation))).toEqual(content);
  });

  test('candidates are the eligible rows, oldest expiry first, then hash, no more than asked', async () => {
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
    const find = (limit: number) => subject.store.transact(SPACE, (tx) => tx.findCandidates(limit));
    const order = [hashAt(1), hashAt(2), hashAt(5), hashAt(4)];
    expect((await find(100)).map(({ hash }) => hash)).toEqual(order);
    expect((await find(2)).map(({ hash }) => hash)).toEqual(order.slice(0, 2));
    await updateNode(subject.store, SPACE, hashAt(8), { childRefCount: 0 });
    await updateNode(subject.store, SPACE, hashAt(1), { rootRefCount: 1, heldDomainCount: 1 });
    expect((await find(100)).map(({ hash }) => hash)).toEqual([hashAt(8), hashAt(2), hashAt(5), hashAt(4)]);
    expect((await find(1))[0]).toEqual({ ...(rows[7] as NodeRow), childRefCount: 0 });
  });

  test('claimed and abandoned waiting rows are found, bounded', async () => {
    const waiting = [4, 2, 3].map((index) =>
      readyNode(hashAt(index), { state: 'waiting', waitingTouchedAt: NOW + index }),
    );
    const claimed = [7, 6].map((index) => readyNode(hashAt(index), { state: 'claimed' }));
    await insertNodes(subject.store, SPACE, [...waiting, ...claimed, readyNode(hashAt(9))]);
    await subject.store.transact(SPACE, async (tx) => {
      expect((await tx.findClaimed(10)).map(({ hash }) => hash).sort()).toEqual([hashAt(6), hashAt(7)]);
      expect((await tx.findClaimed(1)).length).toBe(1);
      const abandoned = await tx.findAbandonedWaiting(NOW + 3, 10);
      expect(abandoned.map(({ hash }) => hash).sort()).toEqual([hashAt(2), hashAt(3)]);
      expect((await tx.findAbandonedWaiting(NOW + 3, 1)).length).toBe(1);
      expect(await tx.findAbandonedWaiting(NOW + 1, 10)).toEqual([]);
    });
  });

  test('discards are kept until removed; recording one twice is recording it once', async () => {
    const generations = [newGeneration(), newGeneration(), newGeneration()];
    await subject.store.transact(SPACE, async (tx) => {
      for (const generation of [...generations, ...generations]) await tx.addDiscard(generation);
    });
    await subject.store.transact(SPACE, async (tx) => {
      expect([...(await tx.findDiscards(10))].sort()).toEqual(generations);
      expect((await tx.findDiscards(2)).length).toBe(2);
      await tx.removeDiscard(generations[0]!);
    });
    const left = await subject.store.transact(SPACE, (tx) => tx.findDiscards(10));
    expect([...left].sort()).toEqual(generations.slice(1));
  });
}
