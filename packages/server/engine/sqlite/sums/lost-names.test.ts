/** A name that becomes wrong while a server runs: what belongs to it is not absent. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WALK_UNKNOWN } from '../../../core/root-ref-walks.ts';
import { hashAt, ManualClock, SPACE } from '../../test/samples.ts';
import { SqliteMetadataStore } from '../metadata-store.ts';
import { SpaceDirectory } from '../space-directory.ts';

const OTHER = { appId: 'other app', spaceId: 'other' };
const ALL = { revision: 'current' as const, after: undefined, limit: 10 };

let folder: string;
let store: SqliteMetadataStore;
const path = () => join(folder, 'holdfast.db');
const commit = (space = SPACE, domain = 'side') =>
  store.transact(space, async (tx) => {
    const revision = (await tx.findRevision(domain)) + 1;
    const payloadDigest = new Uint8Array(32);
    const changes = [{ hash: hashAt(revision), before: 0, after: 1 }];
    await tx.insertRootRefCommit(domain, { requestId: `r${revision}`, payloadDigest, revision }, changes);
    return revision;
  });
const list = async () => await store.findBalancesAt(SPACE, 'side', ALL);
const outcomeOf = (work: () => Promise<unknown>): Promise<string> =>
  (async () => work())().then(
    (found) => JSON.stringify(found),
    (error: Error) => error.message,
  );

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-names-'));
  const onFatal = (error: Error) => {
    throw error;
  };
  store = new SqliteMetadataStore({ path: path(), clock: new ManualClock(), onFatal, isShared: false });
});
afterEach(async () => {
  await store.close();
  await rm(folder, { recursive: true });
});

function change(sql: string): void {
  const database = new Database(path(), { readwrite: true });
  expect(database.run(sql).changes).toBe(1);
  database.close();
}

test.each([
  ['one bit of the name', "UPDATE domains SET domain = 'sidd' WHERE domain = 'side'"],
  ['one bit of its Space', "UPDATE domains SET space = space + 1024 WHERE domain = 'side'"],
  ['no Space', "UPDATE domains SET space = -1 WHERE domain = 'side'"],
])('of a domain: %s', async (_name, sql) => {
  await store.transact(OTHER, async (tx) => tx.findRevision('side'));
  await commit(OTHER, 'first');
  await commit();
  const before = await list();
  change(sql);
  expect(await outcomeOf(list)).toContain('the domain "side"');
  expect(await outcomeOf(commit)).toContain('the domain "side"');
  // It is the matter of that domain.
  expect(await commit(OTHER, 'side')).toBe(1);
  expect(await commit(SPACE, 'another')).toBe(1);
  const look = { signal: new AbortController().signal, onTable: () => undefined, isRepaired: true };
  expect((await store.findRowDamage(look)).map(({ repaired }) => repaired)).toEqual([true]);
  expect(await list()).toEqual(before);
});

test('of a domain: wrong counts are counted again, also after a walk', async () => {
  await commit();
  await store.transact(SPACE, (tx) => tx.noteWalk('side'));
  const { items } = (await list()) ?? {};
  change("UPDATE domains SET revision = 6, commit_count = 9 WHERE domain = 'side'");
  expect(await outcomeOf(list)).toContain('the domain "side"');
  const look = { signal: new AbortController().signal, onTable: () => undefined, isRepaired: true };
  expect((await store.findRowDamage(look)).map(({ repaired }) => repaired)).toEqual([true]);
  expect(await store.findRowDamage(look)).toEqual([]);
  expect(await list()).toEqual({ revision: 1, items: items ?? [], walkedUntil: WALK_UNKNOWN });
});

test('of a domain: nobody knows which it was', async () => {
  await commit();
  await commit(OTHER, 'first');
  change("UPDATE domains SET domain = '' WHERE domain = 'side'");
  expect(await outcomeOf(list)).toContain('the domain "side"');
  expect(await outcomeOf(() => commit(SPACE, 'another'))).toContain('the domain "another"');
  expect(await commit(OTHER, 'another')).toBe(1);
});

test('of a Space: one bit, or all of it', () => {
  const lost = (appId: string, spaceId: string, isProven: boolean) =>
    new SpaceDirectory({
      ...{ spaces: [{ appId, spaceId, isProven }], domains: [] },
      ...{ isSpaceUnknown: false, isDomainUnknown: false },
    });
  expect(() => lost('app', 'space', true).idOf(SPACE, null)).toThrow(/the Space "space"/);
  expect(() => lost('', 'space', false).idOf(SPACE, null)).toThrow(/the Space "space"/);
  expect(lost('', 'space', false).idOf(OTHER, null)).toBeUndefined();
  expect(lost('app', 'another', true).idOf(SPACE, null)).toBeUndefined();
});
