/** Pages of an old revision in steps of a few rows: wherever a step ends, nothing is lost and nothing comes twice. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Hash } from '@holdfast/protocol';
import fc from 'fast-check';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import type { Space } from '../../core/model.ts';
import { BALANCES_COUNTED_MAX } from '../../core/rows/row-sums.ts';
import { spaceKeyOf } from '../../core/space-map.ts';
import { type BalancePageRequest, mergeStep, readBalancePage } from '../rows/balance-page.ts';
import { hashAt } from '../test/samples.ts';
import { balanceReads } from './balance-page.ts';
import { domainCountSum } from './row-sums.ts';
import { openDatabases, openInstance, type StoreInstance } from './test/postgres-fixture.ts';

const START_MS_MAX = 300_000;
const DOMAIN = 'photos';

let databases: TestDatabases;
let instance: StoreInstance;
let spaces = 0;

const readPage = (space: Space, page: BalancePageRequest, rowsMax?: number) =>
  readBalancePage(balanceReads(instance.pool, spaceKeyOf(space), DOMAIN), page, rowsMax);

beforeAll(async () => {
  databases = await openDatabases();
  instance = await openInstance(await databases.createDatabase());
}, START_MS_MAX);
afterAll(async () => {
  await instance.close();
  await databases.close();
});

test('any page of any revision is right, whatever the size of a step', async () => {
  const commits = fc.array(fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 6 }), {
    minLength: 1,
    maxLength: 8,
  });
  const property = fc.asyncProperty(commits, fc.integer({ min: 1, max: 4 }), async (toggles, rowsMax) => {
    spaces += 1;
    const space = { appId: 'pages', spaceId: String(spaces) };
    const held = new Set<Hash>();
    const revisions = [[] as Hash[]];
    for (const [index, commit] of toggles.entries()) {
      const changes = [...new Set(commit)].sort().map((at) => {
        const hash = hashAt(at);
        const before = Number(held.has(hash));
        if (before === 1) held.delete(hash);
        else held.add(hash);
        return { hash, before, after: 1 - before };
      });
      const record = { requestId: String(index), payloadDigest: new Uint8Array(32), revision: index + 1 };
      await instance.store.transact(space, (tx) => tx.insertRootRefCommit(DOMAIN, record, changes));
      await instance.store.transact(space, (tx) => tx.noteWalk(DOMAIN));
      revisions.push([...held].sort());
    }
    for (const [revision, expected] of [...revisions.entries()].slice(1)) {
      for (const limit of [1, 3, 100]) {
        const after = expected[1];
        const rest = expected.filter((hash) => after === undefined || hash > after).slice(0, limit);
        const request = { revision, after, limit };
        const page = await readPage(space, request, rowsMax);
        expect(page?.items.map(({ hash }) => hash)).toEqual(rest);
      }
    }
    const future = { revision: revisions.length, after: undefined, limit: 1 };
    expect(await readPage(space, future, rowsMax)).toBeUndefined();
  });
  await fc.assert(property, { numRuns: 15 });
}, 300_000);

test('a hash with a long history costs the reading of one row', async () => {
  const space = { appId: 'pages', spaceId: 'long' };
  for (let revision = 1; revision <= 300; revision += 1) {
    const record = { requestId: String(revision), payloadDigest: new Uint8Array(32), revision };
    const before = (revision + 1) % 2;
    const change = { hash: hashAt(1), before, after: 1 - before };
    await instance.store.transact(space, (tx) => tx.insertRootRefCommit(DOMAIN, record, [change]));
    if (revision === 1) await instance.store.transact(space, (tx) => tx.noteWalk(DOMAIN));
  }
  const before = instance.pool.counter.roundTrips;
  const page = { revision: 151, after: undefined, limit: 10 };
  const found = await readPage(space, page, 5);
  expect(found).toMatchObject({ revision: 151, items: [{ hash: hashAt(1), balance: 1 }] });
  expect(instance.pool.counter.roundTrips - before).toBeLessThanOrEqual(2);
});

test('the end of a list counts the balances, but not those of a very large domain', async () => {
  const space = { appId: 'pages', spaceId: 'large' };
  const record = { requestId: 'r', payloadDigest: new Uint8Array(32), revision: 1 };
  await instance.store.transact(space, (tx) =>
    tx.insertRootRefCommit(DOMAIN, record, [{ hash: hashAt(1), before: 0, after: 1 }]),
  );
  const list = (balances: number, sum: number) => async () => {
    const values = [spaceKeyOf(space), balances, sum];
    const update = 'UPDATE domains SET balance_count = $2, count_sum = $3 WHERE space = $1';
    await instance.pool.run('changing', update, values);
    const page = { revision: 'current', after: undefined, limit: 10 } as const;
    return (await readPage(space, page))?.items.length;
  };
  const sumOf = (balances: number) => domainCountSum(spaceKeyOf(space), DOMAIN, 1, balances);
  expect(await list(1, sumOf(1))()).toBe(1);
  await expect(list(2, sumOf(2))()).rejects.toThrow('balances');
  expect(await list(BALANCES_COUNTED_MAX + 1, sumOf(BALANCES_COUNTED_MAX + 1))()).toBe(1);
  await expect(list(BALANCES_COUNTED_MAX + 1, sumOf(1))()).rejects.toThrow('domains');
});

test('a step ends at the earlier end of its two cut-off reads', () => {
  const rows = (...indexes: number[]) => indexes.map((index) => ({ hash: hashAt(index), balance: 1 }));
  expect(mergeStep(rows(1, 5), rows(2, 3), 2)).toEqual({ passed: rows(1, 2, 3), resumeAfter: hashAt(3) });
  expect(mergeStep(rows(1, 5), rows(2), 2)).toEqual({ passed: rows(1, 2, 5), resumeAfter: hashAt(5) });
  expect(mergeStep(rows(1), rows(2), 2)).toEqual({ passed: rows(1, 2), resumeAfter: undefined });
});
