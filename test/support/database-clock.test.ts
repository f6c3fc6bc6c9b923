import { afterAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { openDatabaseClock } from './database-clock.ts';
import { openPostgres } from './postgres-server.ts';

const HOUR_MS = 3_600_000;
/** Far less than a step, more than a busy machine takes to ask. */
const NEAR_MS = 60_000;
const READ = `SELECT (extract(epoch FROM least(clock_timestamp(), statement_timestamp(), transaction_timestamp(), now())) * 1000)::bigint AS ms`;
const postgres = await openPostgres();
afterAll(() => postgres.close());

test('moves one database while others are connected to it, and no other database', async () => {
  const [url, otherUrl] = [await postgres.createDatabase(), await postgres.createDatabase()];
  const clock = await openDatabaseClock(url);
  await using sql = new SQL(url, { max: 1 });
  await using other = new SQL(otherUrl, { max: 1 });
  let expectedMs = 0;
  for (const step of [0, HOUR_MS, 40 * HOUR_MS]) {
    await clock.advance(step);
    expectedMs += step;
    const [row] = await sql.unsafe(READ);
    expect(Math.abs(Number(row.ms) - Date.now() - expectedMs)).toBeLessThan(NEAR_MS);
    expect(Math.abs(clock.now() - Date.now() - expectedMs)).toBeLessThan(NEAR_MS);
    const [unmoved] = await other.unsafe(READ);
    expect(Math.abs(Number(unmoved.ms) - Date.now())).toBeLessThan(NEAR_MS);
  }
});
