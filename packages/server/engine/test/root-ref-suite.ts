/** Root refs: commits, revisions, and pages of an older revision (docs/api.md, updateRootRefs). */
import { expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import fc from 'fast-check';
import type { Space } from '../../core/model.ts';
import type { MetadataStore } from '../../core/ports.ts';
import { hashAt, NOW, SPACE } from './samples.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const DOMAIN = 'photos';
const DAY_MS = 86_400_000;

export function testRootRefs(subject: StoreUnderTest): void {
  test('a domain without commits is at revision 0 with nothing', async () => {
    const page = { revision: 'current', after: undefined, limit: 10 } as const;
    expect(await subject.store.findBalancesAt(SPACE, DOMAIN, page)).toMatchObject({ revision: 0, items: [] });
    expect(await subject.store.findBalancesAt(SPACE, DOMAIN, { ...page, revision: 0 })).toMatchObject({
      revision: 0,
      items: [],
    });
    await subject.store.transact(SPACE, async (tx) => {
      expect(await tx.findRevision(DOMAIN)).toBe(0);
      expect(await tx.findRootRefCommit(DOMAIN, 'r')).toBeUndefined();
      expect(await tx.findBalances(DOMAIN, [hashAt(1), hashAt(2)])).toEqual([0, 0]);
    });
  });

  test('a commit is found by its request id, and its balances are the current ones', async () => {
    await commit(
      subject.store,
      SPACE,
      DOMAIN,
      new Map([
        [hashAt(1), 2],
        [hashAt(2), -3],
      ]),
      'first',
    );
    await subject.store.transact(SPACE, async (tx) => {
      expect(await tx.findRevision(DOMAIN)).toBe(1);
      expect(await tx.findRootRefCommit(DOMAIN, 'first')).toEqual({
        requestId: 'first',
        payloadDigest: new Uint8Array(32).fill(1),
        revision: 1,
      });
      expect(await tx.findRootRefCommit(DOMAIN, 'First')).toBeUndefined();
      expect(await tx.findRootRefCommit('other', 'first')).toBeUndefined();
      expect(await tx.findBalances(DOMAIN, [hashAt(2), hashAt(9), hashAt(1)])).toEqual([-3, 0, 2]);
      expect(await tx.findBalances('other', [hashAt(1)])).toEqual([0]);
    });
    const other = await subject.store.transact({ appId: 'b', spaceId: 'b' }, (tx) => tx.findRevision(DOMAIN));
    expect(other).toBe(0);
  });

  test('request ids are compared exactly', async () => {
    const ids = ['a', 'a\u0000', 'a\u0000b', 'A', '\u00e9', 'e\u0301', '', ' '];
    for (const id of ids) await commit(subject.store, SPACE, DOMAIN, new Map(), id);
    for (const [index, id] of ids.entries()) {
      const found = await subject.store.transact(SPACE, (tx) => tx.findRootRefCommit(DOMAIN, id));
      expect(found?.revision).toBe(index + 1);
    }
  });

  test('a failed commit records nothing', async () => {
    const failing = subject.store.transact(SPACE, async (tx) => {
      await tx.insertRootRefCommit(DOMAIN, record('r', 1), [{ hash: hashAt(1), before: 0, after: 1 }]);
      throw new Error('stop');
    });
    await failing.catch(() => undefined);
    await subject.store.transact(SPACE, async (tx) => {
      expect(await tx.findRevision(DOMAIN)).toBe(0);
      expect(await tx.findRootRefCommit(DOMAIN, 'r')).toBeUndefined();
    });
    expect(await walk(subject.store, SPACE, 'current', 10)).toEqual(new Map());
  });

  test('a change of 0 keeps the balance and advances the revision', async () => {
    await commit(subject.store, SPACE, DOMAIN, new Map([[hashAt(1), 2]]));
    await commit(subject.store, SPACE, DOMAIN, new Map([[hashAt(1), 0]]));
    expect(await walk(subject.store, SPACE, 1, 10)).toEqual(new Map([[hashAt(1), 2]]));
    expect(await walk(subject.store, SPACE, 2, 10)).toEqual(new Map([[hashAt(1), 2]]));
  });

  test('every revision reads page by page as it was, whatever was committed since', async () => {
    let run = 0;
    const deltas = fc.array(fc.tuple(fc.nat({ max: 11 }), fc.integer({ min: -2, max: 2 })), { maxLength: 8 });
    const property = fc.asyncProperty(
      fc.array(deltas, { minLength: 1, maxLength: 10 }),
      fc.integer({ min: 1, max: 5 }),
      async (commits, limit) => {
        run += 1;
        const space = { appId: 'property', spaceId: String(run) };
        const balances = new Map<Hash, number>();
        const revisions = [new Map<Hash, number>()];
        for (const changes of commits) {
          const byHash = new Map(changes.map(([index, delta]) => [hashAt(index), delta]));
          await commit(subject.store, space, DOMAIN, byHash);
          for (const [hash, delta] of byHash) {
            balances.set(hash, (balances.get(hash) ?? 0) + delta);
            if (balances.get(hash) === 0) balances.delete(hash);
          }
          revisions.push(new Map([...balances].sort(([a], [b]) => (a < b ? -1 : 1))));
        }
        for (const [revision, expected] of [...revisions.entries()].slice(1)) {
          expect([...(await walk(subject.store, space, revision, limit))]).toEqual([...expected]);
        }
        const current = await walk(subject.store, space, 'current', limit);
        expect([...current]).toEqual([...(revisions.at(-1) as Map<Hash, number>)]);
      },
    );
    await fc.assert(property, { numRuns: 40 });
  });

  test('a page of an old revision is whole, however many hashes came and went since', async () => {
    const old = Array.from({ length: 12 }, (_, index) => hashAt(index * 1000));
    await commit(subject.store, SPACE, DOMAIN, new Map(old.map((hash) => [hash, 1])));
    for (let from = 1; from < 11_000; from += 1000) {
      const others = Array.from({ length: 998 }, (_, index) => hashAt(from + index));
      await commit(subject.store, SPACE, DOMAIN, new Map(others.map((hash) => [hash, 1])));
      if (from % 2000 === 1)
        await commit(subject.store, SPACE, DOMAIN, new Map(others.map((hash) => [hash, -1])));
    }
    await commit(
      subject.store,
      SPACE,
      DOMAIN,
      new Map(old.map((hash, index) => [hash, index % 2 === 0 ? -1 : 1])),
    );
    for (const limit of [3, 12, 50]) {
      expect([...(await walk(subject.store, SPACE, 1, limit))]).toEqual(old.map((hash) => [hash, 1]));
    }
  });

  test('history is kept from the note of a walk on, until a day has passed', async () => {
    const add = (request: string) =>
      subject.store.transact(SPACE, async (tx) => {
        const [revision, [before]] = [await tx.findRevision('d'), await tx.findBalances('d', [hashAt(1)])];
        const change = { hash: hashAt(1), before: before as number, after: (before as number) + 1 };
        await tx.insertRootRefCommit('d', record(request, revision + 1), [change]);
      });
    const pageOf = (revision: number | 'current') =>
      subject.store.findBalancesAt(SPACE, 'd', { revision, after: undefined, limit: 1 });
    const balances = async () => [
      (await pageOf(1))?.items[0]?.balance,
      (await pageOf(2))?.items[0]?.balance,
      (await pageOf('current'))?.items[0]?.balance,
    ];
    await subject.store.transact(SPACE, (tx) => tx.noteWalk('d'));
    await add('a');
    await add('b');
    expect(await balances()).toEqual([undefined, 2, 2]);
    expect((await pageOf('current'))?.walkedUntil).toBe(0);
    await subject.store.transact(SPACE, (tx) => tx.noteWalk('d'));
    subject.clock.set(NOW + DAY_MS);
    await add('c');
    expect(await balances()).toEqual([undefined, 2, 3]);
    const until = (await pageOf('current'))?.walkedUntil as number;
    expect(until).toBeGreaterThan(NOW + DAY_MS);
    subject.clock.set(until);
    await add('d');
    expect(await balances()).toEqual([undefined, undefined, 4]);
  });

  test('history is deleted when it is old enough; revisions that need it are refused, later ones are not', async () => {
    for (const [index, delta] of [1, 1, 1].entries()) {
      subject.clock.set(NOW + index * 10);
      await commit(subject.store, SPACE, DOMAIN, new Map([[hashAt(1), delta]]));
    }
    const prune = (historyAt: number) => subject.store.maintain({ now: NOW, abandonedAt: 0, historyAt });
    await prune(NOW + 9);
    expect((await walk(subject.store, SPACE, 1, 10)).get(hashAt(1))).toBe(1);
    await prune(NOW + 10);
    const page = { after: undefined, limit: 10 };
    expect(await subject.store.findBalancesAt(SPACE, DOMAIN, { ...page, revision: 1 })).toBeUndefined();
    expect((await walk(subject.store, SPACE, 2, 10)).get(hashAt(1))).toBe(2);
    await prune(NOW + 100);
    expect(await subject.store.findBalancesAt(SPACE, DOMAIN, { ...page, revision: 2 })).toBeUndefined();
    expect((await walk(subject.store, SPACE, 3, 10)).get(hashAt(1))).toBe(3);
    expect((await walk(subject.store, SPACE, 'current', 10)).get(hashAt(1))).toBe(3);
  });
}

function record(requestId: string, revision: number) {
  return { requestId, payloadDigest: new Uint8Array(32).fill(revision & 0xff), revision };
}

async function commit(
  store: MetadataStore,
  space: Space,
  domain: string,
  deltas: ReadonlyMap<Hash, number>,
  requestId?: string,
): Promise<void> {
  await store.transact(space, async (tx) => {
    const revision = (await tx.findRevision(domain)) + 1;
    const hashes = [...deltas.keys()].sort();
    const before = await tx.findBalances(domain, hashes);
    const changes = hashes.map((hash, index) => ({
      hash,
      before: before[index] as number,
      after: (before[index] as number) + (deltas.get(hash) as number),
    }));
    await tx.insertRootRefCommit(domain, record(requestId ?? `request ${revision}`, revision), changes);
  });
  await store.transact(space, (tx) => tx.noteWalk(domain));
}

/** All pages of one revision. */
async function walk(
  store: MetadataStore,
  space: Space,
  revision: number | 'current',
  limit: number,
): Promise<Map<Hash, number>> {
  const all = new Map<Hash, number>();
  let after: Hash | undefined;
  for (;;) {
    const page = await store.findBalancesAt(space, DOMAIN, { revision, after, limit });
    if (page === undefined) throw new Error(`revision ${revision} is gone`);
    if (revision !== 'current') expect(page.revision).toBe(revision);
    for (const { hash, balance } of page.items) all.set(hash, balance);
    if (page.items.length < limit) return all;
    after = page.items.at(-1)?.hash;
  }
}
