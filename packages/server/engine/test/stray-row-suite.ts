/** The state that rows keep for the walk over all objects and for a restore (core/upkeep-ports.ts). */
import { expect, test } from 'bun:test';
import type { Generation } from '../../core/model.ts';
import { hashAt, NOW, newGeneration, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const STEP = 1_000;

export function testStrayRows(subject: StoreUnderTest): void {
  const settle = (
    now: number,
    unknown: readonly Generation[],
    known: readonly Generation[] = [],
    seenSince = 0,
  ) => subject.store.settle('tombstones', { unknown, known, now, seenSince });

  test('a tombstone keeps the first instant, and goes when its generation has a record', async () => {
    const [first, second, both] = [newGeneration(), newGeneration(), newGeneration()] as const;
    const all = [first, second, both];
    expect(await subject.store.page('tombstones', all)).toEqual(new Map());
    await settle(NOW, [first, first, second]);
    await settle(NOW + 5, [first, both], [second, both]);
    expect(await subject.store.page('tombstones', all)).toEqual(new Map([[first, NOW]]));
    await settle(NOW + 6, [second], [newGeneration()]);
    const store = await subject.reopen();
    expect(await store.page('tombstones', [...all, first])).toEqual(
      new Map([
        [first, NOW],
        [second, NOW + 6],
      ]),
    );
  });

  test('tombstones that no walk comes across are forgotten, but for those that this walk has found', async () => {
    const [gone, found, risen, seen] = [newGeneration(), newGeneration(), newGeneration(), newGeneration()];
    await settle(NOW, [gone, found, risen, seen] as Generation[]);
    await settle(NOW + 10, [seen] as Generation[]);
    await settle(NOW + 20, [found] as Generation[], [risen] as Generation[], NOW + 10);
    const kept = await subject.store.page('tombstones', [gone, found, risen, seen] as Generation[]);
    expect(kept).toEqual(
      new Map([
        [found as Generation, NOW],
        [seen as Generation, NOW],
      ]),
    );
    await settle(NOW + 30, [], [], NOW + 20);
    expect([...(await subject.store.page('tombstones', [found, seen] as Generation[])).keys()]).toEqual([
      found as Generation,
    ]);
  });

  test('a note is the text that was set last, and no other name has it', async () => {
    expect(await subject.store.page('note', 'place')).toBeUndefined();
    for (const text of ['', 'first', '\\u0000 \\\\ \' " ünequal 💾\n', '0012', ' 12 ', '1e3']) {
      await subject.store.settle('note', { name: 'place', value: text });
      expect(await subject.store.page('note', 'place')).toBe(text);
    }
    await subject.store.settle('note', { name: 'Place', value: 'other' });
    for (const text of ['a\0b', '\ud800']) {
      expect(
        await subject.store.settle('note', { name: 'place', value: text }).catch((error) => error),
      ).toBeInstanceOf(RangeError);
    }
    const store = await subject.reopen();
    expect(await store.page('note', 'place')).toBe('1e3');
    expect(await store.page('note', 'Place')).toBe('other');
    expect(await store.page('note', 'plac')).toBeUndefined();
  });

  test('a number in a note is raised only', async () => {
    for (const value of [9, 11, 10, 3]) await subject.store.settle('note', { name: 'number', value });
    expect(await subject.store.page('note', 'number')).toBe('11');
  });

  test('raised revisions are those of all domains, also of new ones, and of no earlier page', async () => {
    const other = { appId: 'other', spaceId: 'other' };
    const revisionOf = (space: typeof SPACE, domain: string) =>
      subject.store.transact(space, (tx) => tx.findRevision(domain));
    const commit = (space: typeof SPACE, domain: string, before: number) =>
      subject.store.transact(space, async (tx) => {
        const revision = (await tx.findRevision(domain)) + 1;
        const record = { requestId: `r${revision}`, payloadDigest: new Uint8Array(32), revision };
        await tx.insertRootRefCommit(domain, record, [{ hash: hashAt(1), before, after: before + 1 }]);
        return revision;
      });
    const pageAt = (space: typeof SPACE, domain: string, revision: number | 'current') =>
      subject.store.findBalancesAt(space, domain, { revision, after: undefined, limit: 10 });
    await commit(SPACE, 'a', 0);
    await commit(SPACE, 'a', 1);
    await commit(other, 'b', 0);
    await subject.store.transact(SPACE, (tx) => tx.noteWalk('a'));
    await subject.store.settle('revisions', STEP);
    await subject.store.settle('revisions', STEP);
    for (const isReopened of [false, true]) {
      if (isReopened) await subject.reopen();
      expect(await revisionOf(SPACE, 'a')).toBe(2 * STEP + 2);
      expect(await revisionOf(other, 'b')).toBe(2 * STEP + 1);
      expect(await revisionOf(SPACE, 'new')).toBe(2 * STEP);
      expect(await pageAt(SPACE, 'a', 'current')).toMatchObject({
        revision: 2 * STEP + 2,
        items: [{ hash: hashAt(1), balance: 2 }],
      });
      expect(await pageAt(SPACE, 'new', 'current')).toMatchObject({ revision: 2 * STEP, items: [] });
      expect(await pageAt(SPACE, 'new', 2 * STEP)).toMatchObject({ revision: 2 * STEP, items: [] });
      for (const revision of [1, 2, STEP + 2]) expect(await pageAt(SPACE, 'a', revision)).toBeUndefined();
      const known = await subject.store.transact(SPACE, (tx) => tx.findRootRefCommit('a', 'r2'));
      expect(known?.revision).toBe(2);
    }
    expect(await commit(SPACE, 'a', 2)).toBe(2 * STEP + 3);
    expect(await commit(SPACE, 'new', 0)).toBe(2 * STEP + 1);
    await subject.store.transact(SPACE, (tx) => tx.noteWalk('new'));
    expect(await commit(SPACE, 'new', 1)).toBe(2 * STEP + 2);
    expect((await pageAt(SPACE, 'a', 2 * STEP + 2))?.items).toEqual([{ hash: hashAt(1), balance: 2 }]);
    expect((await pageAt(SPACE, 'new', 2 * STEP + 1))?.items).toEqual([{ hash: hashAt(1), balance: 1 }]);
    // A check finds nothing wrong with what was raised.
    const found = await subject.store.findRowDamage?.({
      ...{ signal: new AbortController().signal, onTable: () => undefined, isRepaired: false },
    });
    expect(found).toEqual([]);
  });
}
