/** Lists and counts of Spaces beside damaged pages of a real PostgreSQL: what cannot be read hides nothing else. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { makeNode } from '../../../../test/support/canonical-node.ts';
import { type PostgresServer, startPostgres } from '../../../../test/support/postgres-server.ts';
import { leaseNode } from '../../core/lease/lease-node.ts';
import type { Space } from '../../core/model.ts';
import type { SpaceEntry } from '../../core/tenancy-ports.ts';
import { administer } from '../../deployment/registry.ts';
import { openPostgresRegistryStore } from './registry-store.ts';
import { damagePage } from './test/damaged-page-fixture.ts';
import { coreOf, makeContent, openInstance, type StoreInstance } from './test/postgres-fixture.ts';

const TEST_MS_MAX = 300_000;
const SPACES = 200;
const PAGE_SPACES = 30;

let postgres: PostgresServer;
beforeAll(async () => {
  postgres = await startPostgres({ settings: { autovacuum: 'off' } });
}, TEST_MS_MAX);
afterAll(() => postgres.stop());

const spaces: readonly Space[] = Array.from({ length: SPACES }, (_, index) => ({
  appId: index % 2 === 0 ? 'even' : 'odd',
  spaceId: `space ${index}`,
}));

/** Each Space has a node with a lease of a minute. */
async function prepare(clock: { at: number; now(): number }): Promise<string> {
  const url = await postgres.createDatabase();
  const content = makeContent(clock.now);
  const instance = await openInstance(url, { clock });
  const core = coreOf(instance, content);
  for (const space of spaces) {
    const { hash, bytes } = makeNode(space.spaceId);
    const answer = await leaseNode(core, space, hash, 60_000, () => 'http://unused');
    if (!('upload' in answer)) throw new Error(answer.state);
    content.put(answer.upload.url, bytes);
    await leaseNode(core, space, hash, 60_000, () => 'http://unused');
  }
  await instance.close();
  return url;
}

async function listAll({ store }: StoreInstance, appId?: string): Promise<readonly SpaceEntry[]> {
  const found: SpaceEntry[] = [];
  for (let after: string | undefined; ; ) {
    const page = await store.page('spaces', { appId, after, limit: PAGE_SPACES });
    found.push(...page);
    after = page.at(-1)?.position;
    if (page.length < PAGE_SPACES) return found;
  }
}

test(
  'Spaces whose counters are on a damaged page are listed without them, and all others with them',
  async () => {
    const clock = { at: 1_000_000_000_000, now: () => clock.at };
    const url = await prepare(clock);
    await damagePage(postgres, url, 'usage_counters', 0);
    const instance = await openInstance(url, { clock });
    const names = (of: readonly Pick<SpaceEntry, 'space'>[]) =>
      of.map(({ space }) => space.spaceId).toSorted();
    const all = await listAll(instance);
    expect(names(all)).toEqual(names(spaces.map((space) => ({ space }))));
    const unread = all.filter(({ counters }) => counters === undefined);
    expect(unread.length).toBeWithin(10, SPACES - 10);
    for (const { damage } of unread) {
      expect((damage as Error).message).toContain('block 0 of the table usage_counters is damaged');
    }
    for (const { counters, damage } of all) {
      if (counters !== undefined) expect([counters.nodeCount, damage]).toEqual([1, undefined]);
    }
    const even = await listAll(instance, 'even');
    expect(even.length).toBe(SPACES / 2);
    expect(names(even.filter(({ counters }) => counters === undefined))).toEqual(
      names(unread.filter(({ space }) => space.appId === 'even')),
    );
    const registry = administer({
      apps: openPostgresRegistryStore(instance.pool),
      readTotals: (appId) => instance.store.readAppTotals(appId),
      close: async () => undefined,
    });
    const keys = { kind: 'url', url: 'https://even.test/keys' } as const;
    await registry.addApp({ appId: 'even', issuer: 'https://even.test', audience: 'test', keys });
    expect(await registry.describeApps()).toMatchObject([{ appId: 'even', usage: null }]);
    await instance.close();
  },
  TEST_MS_MAX,
);

test(
  'ended leases are counted in all Spaces but those with damaged rows, and the damage is said',
  async () => {
    const clock = { at: 1_000_000_000_000, now: () => clock.at };
    const url = await prepare(clock);
    const sql = new SQL(url, { max: 1 });
    // If an index page is full, PostgreSQL looks for dead rows there, and reads the damaged ones too.
    const indexes: { name: string }[] = await sql.unsafe(
      "SELECT indexname AS name FROM pg_indexes WHERE tablename = 'nodes'",
    );
    for (const { name } of indexes) await sql.unsafe(`ALTER INDEX ${name} SET (fillfactor = 50)`);
    await sql.close();
    const { hashes } = await damagePage(postgres, url, 'nodes', 1);
    clock.at += 120_000;
    const instance = await openInstance(url, { clock });
    const cutoffs = { now: clock.at, abandonedAt: 0, historyAt: 0 };
    for (let step = 0; step < 4; step += 1) {
      const failure = await instance.store.maintain(cutoffs).catch((error) => error);
      if (failure instanceof Error)
        expect(failure.message).toContain('block 1 of the table nodes is damaged');
    }
    await instance.close();
    await using again = new SQL(url, { max: 1 });
    const [{ leased }] = await again.unsafe(
      'SELECT sum(leased_count)::integer AS leased FROM usage_counters',
    );
    expect(leased).toBe(hashes.length);
    expect(leased).toBeWithin(1, SPACES / 2);
  },
  TEST_MS_MAX,
);
