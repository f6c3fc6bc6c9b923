import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { TestDatabases } from '../../../../test/support/postgres-server.ts';
import { checksumsFromSql, findPageChecksums } from './database-fitness.ts';
import { openPostgres } from './open-postgres.ts';
import { addressOf, openDatabases } from './test/postgres-fixture.ts';
import { tryDatabase } from './try-database.ts';

let databases: TestDatabases;
beforeAll(async () => {
  databases = await openDatabases();
});
afterAll(() => databases.close());

test('a start and a look at a database see what PostgreSQL says of its checksums', async () => {
  const address = addressOf(await databases.createDatabase(), { connectionsMax: 1 });
  const pool = await openPostgres(address);
  try {
    const { rows } = await pool.read('looking', 'SHOW data_checksums', []);
    const said = rows[0]?.data_checksums === 'on' ? 'on' : 'off';
    expect(await findPageChecksums(pool)).toBe(said);
    expect((await tryDatabase(address)).pageChecksums).toBe(said);
  } finally {
    await pool.close();
  }
});

test('checksums that are not in force yet count as off, and a server without them says nothing', () => {
  expect(['on', 'off', 'inprogress-on', null].map(checksumsFromSql)).toEqual(['on', 'off', 'off', undefined]);
});
