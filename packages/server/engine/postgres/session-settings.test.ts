/** Settings of an operator for a server, database or role change neither stored data nor answers nor time limits. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { makeNode } from '../../../../test/support/canonical-node.ts';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { runGc } from '../../core/collect/run-gc.ts';
import { getUsage } from '../../core/read/get-usage.ts';
import { readMetadata } from '../../core/read/read-metadata.ts';
import { updateRootRefs } from '../../core/refs/update-root-refs.ts';
import { spaceKeyOf } from '../../core/space-map.ts';
import { SPACE } from '../test/samples.ts';
import { inspectSpace } from './space-snapshot.ts';
import {
  coreOf,
  leaseFor,
  makeContent,
  openDatabases,
  openInstance,
  publish,
} from './test/postgres-fixture.ts';
import { POSTGRES_LIMITS } from './wire/limits.ts';

const START_MS_MAX = 300_000;
const SETTINGS: Readonly<Record<string, string>> = {
  array_nulls: 'off',
  bytea_output: 'escape',
  client_encoding: 'LATIN1',
  DateStyle: 'SQL, DMY',
  default_transaction_isolation: 'serializable',
  extra_float_digits: '-15',
  idle_in_transaction_session_timeout: '1h',
  IntervalStyle: 'sql_standard',
  plan_cache_mode: 'force_custom_plan',
  quote_all_identifiers: 'on',
  search_path: 'elsewhere',
  standard_conforming_strings: 'off',
  statement_timeout: '1h',
  synchronous_commit: 'off',
  TimeZone: 'Asia/Kathmandu',
  transaction_timeout: '1h',
  transform_null_equals: 'on',
};

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
}, START_MS_MAX);
afterAll(() => databases.close());

test.each(['DATABASE', 'ROLE'])('set for a %s', async (kind) => {
  const url = await databases.createDatabase();
  const { username, pathname } = new URL(url);
  const database = pathname.slice(1);
  const whose = kind === 'DATABASE' ? `DATABASE ${database}` : `ROLE ${username} IN DATABASE ${database}`;
  const operator = new Bun.SQL(url, { max: 1 });
  await operator.unsafe('CREATE SCHEMA elsewhere');
  const known = await operator`SELECT name FROM pg_settings`;
  for (const [name, value] of Object.entries(SETTINGS)) {
    if (!known.some((setting: { name: string }) => setting.name === name)) continue;
    const given = name === 'DateStyle' ? value : `'${value}'`;
    await operator.unsafe(`ALTER ${whose} SET ${name} = ${given}`);
  }
  await operator.close();

  const instance = await openInstance(url);
  const { rows } = await instance.pool.read('looking', 'SELECT name, setting FROM pg_settings', []);
  const inForce = new Map(rows.map(({ name, setting }) => [name, setting]));
  expect(inForce.get('default_transaction_isolation')).toBe('read committed');
  expect(inForce.get('transaction_timeout') ?? '0').toBe('0');
  expect(inForce.get('statement_timeout')).toBe(String(POSTGRES_LIMITS.statementMs));
  const content = makeContent();
  const core = coreOf(instance, content);
  const child = makeNode('Kind: ü, 子, \\x00 \\');
  const parent = makeNode('parent', { refs: [child.hash, child.hash] });
  expect((await publish(core, content, parent)).state).toBe('validated_awaiting_children');
  expect((await publish(core, content, child)).state).toBe('ready');
  expect((await leaseFor(core, parent)).state).toBe('ready');
  const changes = [{ hash: parent.hash, delta: 1 }];
  for (const isIdempotent of [false, true]) {
    const answer = await updateRootRefs(core, SPACE, 'Fotos ü \\', { requestId: 'once', changes });
    expect(answer).toEqual({ success: true, idempotent: isIdempotent, revision: 1 });
  }
  expect(await readMetadata(core, SPACE, parent.hash)).toMatchObject({
    metadata: { refs: [child.hash, child.hash] },
    state: { rootRefCount: 1 },
  });
  const usage = await getUsage(core, SPACE);
  expect(usage).toMatchObject({ nodeCount: 2, leasedNodeCount: 2, notReadyNodeCount: 0 });
  expect(await runGc(core, SPACE, 10)).toMatchObject({ examined: 0 });
  const { items } = await instance.store.page('nodesToScrub', { after: undefined, limit: 10 });
  expect(items.map(({ node }) => node.hash).sort()).toEqual([child.hash, parent.hash].sort());
  expect(instance.fatal).toEqual([]);
  await instance.close();
});

test('a snapshot of a Space may be idle for minutes while its rows are counted', async () => {
  const instance = await openInstance(await databases.createDatabase());
  const idleMs = await instance.pool.lend((connection) =>
    inspectSpace(connection, spaceKeyOf(SPACE), null, async (snapshot) => {
      expect(await snapshot.readNodes(undefined, 1)).toEqual([]);
      const { rows } = await connection.query(
        "SELECT setting::int AS idle FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'",
      );
      return rows[0]?.idle as number;
    }),
  );
  expect(idleMs).toBeGreaterThan(20 * POSTGRES_LIMITS.idleInTransactionMs);
  await instance.close();
});
