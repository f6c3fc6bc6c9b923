import { afterAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { openMovableClock } from './movable-clock.ts';
import { openPostgres } from './postgres-server.ts';

const HOUR_MS = 3_600_000;
const postgres = await openPostgres();
afterAll(() => postgres.close());

test('moves a database and a process that run, and nothing else', async () => {
  const url = await postgres.createDatabase();
  const clock = await openMovableClock(url);
  await using sql = new SQL(url, { max: 1 });
  const statement = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms';
  const child = Bun.spawn(
    [process.execPath, '-e', 'for await (const line of console) console.log(Date.now(), +new Date())'],
    { env: { ...process.env, ...clock.environment(-5000) }, stdin: 'pipe', stdout: 'pipe' },
  );
  try {
    const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    for (const expectedMs of [0, HOUR_MS, 3 * HOUR_MS]) {
      if (expectedMs > 0) await clock.advance(expectedMs === HOUR_MS ? HOUR_MS : 2 * HOUR_MS);
      const [row] = await sql.unsafe(statement);
      expect(Math.abs(Number(row.ms) - Date.now() - expectedMs)).toBeLessThan(2000);
      expect(Math.abs(clock.now() - Date.now() - expectedMs)).toBeLessThan(2000);
      child.stdin.write('now\n');
      child.stdin.flush();
      for (const ms of String((await lines.read()).value)
        .trim()
        .split(' ')) {
        expect(Math.abs(Number(ms) + 5000 - Date.now() - expectedMs)).toBeLessThan(2000);
      }
    }
  } finally {
    child.kill();
    await clock.close();
  }
});
