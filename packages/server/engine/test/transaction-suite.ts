/** transact: atomic, isolated, durable, one after another. */
import { expect, test } from 'bun:test';
import type { SpaceTransaction } from '../../core/ports.ts';
import { hashAt, insertNodes, NOW, readNode, readyNode, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const OTHER = { appId: 'app', spaceId: 'other' };

export function testTransactions(subject: StoreUnderTest): void {
  test('a transaction answers what its body returns, and every reader sees its rows', async () => {
    const row = readyNode(hashAt(1), { leaseStartedAt: NOW, leaseExpiresAt: NOW + 5 });
    const answer = await subject.store.transact(SPACE, async (tx) => {
      await tx.insert('node', row);
      expect(await tx.findNode(row.hash)).toEqual(row);
      return 'done';
    });
    expect(answer).toBe('done');
    expect(await subject.store.findNode(SPACE, row.hash)).toEqual(row);
  });

  test('a body that throws at any point leaves nothing, and its own error is thrown', async () => {
    const error = new Error('stop');
    const fail = subject.store.transact(SPACE, async (tx) => {
      await tx.insert('node', readyNode(hashAt(1)));
      await tx.setLooseEdges(hashAt(2), 3);
      throw error;
    });
    expect(await fail.catch((caught) => caught)).toBe(error);
    expect(await subject.store.findNode(SPACE, hashAt(1))).toBeUndefined();
    expect((await subject.store.readCounters(SPACE)).nodeCount).toBe(0);
    expect(await subject.store.transact(SPACE, (tx) => tx.findLooseEdges([hashAt(2)]))).toEqual([0]);
  });

  test('a failing body undoes nothing of the bodies that ran beside it', async () => {
    const jobs = Array.from({ length: 40 }, (_, index) =>
      subject.store.transact(SPACE, async (tx) => {
        await tx.insert('node', readyNode(hashAt(index)));
        if (index % 3 === 1) throw new Error(`stop ${index}`);
        return index;
      }),
    );
    const results = await Promise.allSettled(jobs);
    for (const [index, result] of results.entries()) {
      expect(result.status).toBe(index % 3 === 1 ? 'rejected' : 'fulfilled');
      const row = await subject.store.findNode(SPACE, hashAt(index));
      expect(row === undefined).toBe(index % 3 === 1);
    }
    const kept = results.filter((result) => result.status === 'fulfilled').length;
    expect((await subject.store.readCounters(SPACE)).nodeCount).toBe(kept);
  });

  test('after the first write of a Space fails, the next write can make the Space', async () => {
    const failing = subject.store.transact(SPACE, async (tx) => {
      await tx.insert('node', readyNode(hashAt(1)));
      throw new Error('stop');
    });
    const next = subject.store.transact(SPACE, (tx) => tx.insert('node', readyNode(hashAt(2))));
    await Promise.allSettled([failing, next]);
    expect(await subject.store.findNode(SPACE, hashAt(2))).toBeDefined();
    expect((await subject.store.readCounters(SPACE)).nodeCount).toBe(1);
  });

  test('bodies on one row never lose an update', async () => {
    await insertNodes(subject.store, SPACE, [readyNode(hashAt(1))]);
    const bump = () =>
      subject.store.transact(SPACE, async (tx) => {
        const row = await readNode(tx, hashAt(1));
        await tx.update('node', row, { ...row, childRefCount: row.childRefCount + 1 });
      });
    await Promise.all(Array.from({ length: 100 }, bump));
    expect((await subject.store.findNode(SPACE, hashAt(1)))?.childRefCount).toBe(100);
  });

  test('readers never see what is not committed', async () => {
    let seen: unknown = 'not read';
    await subject.store
      .transact(SPACE, async (tx) => {
        await tx.insert('node', readyNode(hashAt(1)));
        seen = await subject.store.findNode(SPACE, hashAt(1));
      })
      .catch(() => undefined);
    expect(seen).toBeUndefined();
  });

  test('a transaction cannot be used after its body has ended', async () => {
    let kept: SpaceTransaction | undefined;
    await subject.store.transact(SPACE, (tx) => {
      kept = tx;
    });
    expect(async () => await kept?.insert('node', readyNode(hashAt(1)))).toThrow();
    expect(await subject.store.findNode(SPACE, hashAt(1))).toBeUndefined();
  });

  test('Spaces share nothing, even if their names look alike when joined', async () => {
    const spaces = [
      SPACE,
      OTHER,
      { appId: 'apps', spaceId: 'pace' },
      { appId: 'App', spaceId: 'space' },
      { appId: 'app', spaceId: 'e\u0301' },
      { appId: 'app', spaceId: '\u00e9' },
      { appId: 'app:space', spaceId: 'x' },
      { appId: 'app', spaceId: 'space:x' },
    ];
    for (const [index, space] of spaces.entries()) {
      await insertNodes(subject.store, space, [readyNode(hashAt(1), { size: index })]);
    }
    for (const [index, space] of spaces.entries()) {
      expect((await subject.store.findNode(space, hashAt(1)))?.size).toBe(index);
      expect((await subject.store.readCounters(space)).nodeCount).toBe(1);
    }
  });

  test('the now of a transaction is the instant of the clock', async () => {
    subject.clock.set(NOW + 77);
    expect(await subject.store.transact(SPACE, (tx) => tx.now)).toBe(NOW + 77);
    expect(await subject.store.readClock()).toBe(NOW + 77);
  });

  test('what was acknowledged is there after closing and opening again', async () => {
    const row = readyNode(hashAt(1), { refs: new Uint8Array(64).fill(9) });
    await insertNodes(subject.store, SPACE, [row]);
    const store = await subject.reopen();
    expect(await store.findNode(SPACE, hashAt(1))).toEqual(row);
    expect((await store.readCounters(SPACE)).nodeCount).toBe(1);
  });
}
