/** As upgrade.test.ts, with rows in PostgreSQL: a database of the last schema without sums, with a wrong value that others contradict. */
import { expect, test } from 'bun:test';
import { SQL } from 'bun';
import { MIGRATIONS, migrate } from '../../packages/server/engine/postgres/migrations.ts';
import { PostgresPool } from '../../packages/server/engine/postgres/wire/connection-pool.ts';
import { POSTGRES_LIMITS } from '../../packages/server/engine/postgres/wire/limits.ts';
import { parsePostgresUrl } from '../../packages/server/engine/postgres-url.ts';
import { openPostgres } from '../../test/support/postgres-server.ts';
import { makeDeployment } from './deployment.ts';
import { judge } from './judge.ts';
import { postgresOrigin } from './postgres.ts';

const UNSUMMED = 11;
const TEST_MS_MAX = 1_200_000;
const BEFORE_REPAIR = /^(at first|after collection and sweep): the metadata/;
const LEFT_OUT: ReadonlySet<string> = new Set(['holdfast_schema', 'apps_version', 'upload_permits']);

const DAMAGES: readonly string[] = [
  'UPDATE nodes SET size = size | 4096',
  'UPDATE nodes SET canonical_size = canonical_size - 1',
  'UPDATE usage_counters SET lease_watermark = 9223372036854775807',
  "UPDATE domains SET domain = domain || '~'",
  "UPDATE balances SET hash = decode(repeat('00', 32), 'hex') WHERE ctid = (SELECT min(ctid) FROM balances)",
  'UPDATE packs SET live_records = 0',
];
/** Only the bytes or their record contradict it: a check names it, and its repair mends it. */
const OF_BYTES: readonly string[] = [
  `UPDATE nodes SET refs = decode(repeat('00', length(refs)), 'hex')
    WHERE hash = (SELECT min(hash) FROM nodes WHERE length(refs) > 0)`,
  'UPDATE nodes SET size = size + 1, canonical_size = canonical_size + 1',
];

test(
  'what was damaged before rows had sums is not believed, and nothing that can be read is lost',
  async () => {
    const databases = await openPostgres();
    try {
      const [newer, older] = [await databases.createDatabase(), await databases.createDatabase()];
      const origin = postgresOrigin(newer);
      const known = await makeDeployment(origin.open);
      await makeOlder(newer, older);
      const wrong: Record<string, readonly string[]> = {};
      for (const damage of [...DAMAGES, ...OF_BYTES]) {
        const copy = await origin.copy(older);
        await using sql = new SQL(copy.url, { max: 1 });
        expect([damage, (await sql.unsafe(damage)).count > 0]).toEqual([damage, true]);
        await sql.close();
        try {
          const { wrong: all, isSeen } = await judge({ ...copy, isUnproven: true }, known);
          const isOfBytes = OF_BYTES.includes(damage);
          const left = isOfBytes ? all.filter((each) => !BEFORE_REPAIR.test(each)) : all;
          if (left.length > 0) wrong[damage] = left;
          expect([damage, isSeen || !isOfBytes]).toEqual([damage, true]);
        } finally {
          await copy.remove();
        }
      }
      expect(wrong).toEqual({});
    } finally {
      await databases.close();
    }
  },
  TEST_MS_MAX,
);

/** The rows of one database, by an older schema, in an empty one. */
async function makeOlder(from: string, to: string): Promise<void> {
  const pool = new PostgresPool({ ...parsePostgresUrl(to, {}), connectionsMax: 1 }, POSTGRES_LIMITS);
  await migrate(pool, MIGRATIONS.slice(0, UNSUMMED));
  await pool.close();
  await using source = new SQL(from, { max: 1 });
  await using target = new SQL(to, { max: 1 });
  const columns: { table: string; names: string }[] = await target.unsafe(
    `SELECT table_name AS table, string_agg(column_name, ', ') AS names FROM information_schema.columns
     WHERE table_schema = 'public' AND is_generated = 'NEVER' GROUP BY table_name`,
  );
  for (const { table, names } of columns) {
    if (LEFT_OUT.has(table)) continue;
    const [{ rows }] = await source.unsafe(
      `SELECT coalesce(jsonb_agg(to_jsonb(each)), '[]')::text AS rows FROM (SELECT ${names} FROM ${table}) AS each`,
    );
    await target.unsafe(
      `INSERT INTO ${table} (${names}) SELECT ${names} FROM jsonb_populate_recordset(NULL::${table}, $1::text::jsonb)`,
      [rows],
    );
  }
}
