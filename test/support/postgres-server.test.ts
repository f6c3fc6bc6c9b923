import { afterAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { openPostgres, startPostgres } from './postgres-server.ts';
import { readIfThere } from './read-if-there.ts';
import { findDescendants } from './server-process.ts';

const closing: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const close of closing.splice(0)) await close();
});

test('databases of one instance know nothing of each other', async () => {
  const postgres = await openPostgres();
  closing.push(() => postgres.close());
  const [one, other] = [await postgres.createDatabase(), await postgres.createDatabase()];
  await using first = new SQL(one, { max: 1 });
  await using second = new SQL(other, { max: 1 });
  await first.unsafe('CREATE TABLE t (id int)');
  expect((await first`SELECT to_regclass('t')::text AS name`)[0].name).toBe('t');
  expect((await second`SELECT to_regclass('t')::text AS name`)[0].name).toBeNull();
}, 300_000);

test('a crash ends every process and keeps what was committed', async () => {
  const server = await startPostgres();
  closing.push(() => server.stop());
  const url = await server.createDatabase();
  {
    await using sql = new SQL(url, { max: 1 });
    expect((await sql`SHOW fsync`)[0].fsync).toBe('on');
    await sql.unsafe('CREATE TABLE t (id int)');
    await sql`INSERT INTO t VALUES (7)`;
  }
  const processes = [server.pid, ...findDescendants(server.pid)];
  expect(processes.length).toBeGreaterThan(3);
  await server.kill();
  const states = processes.map((pid) => readIfThere(`/proc/${pid}/stat`) ?? ') Z ');
  expect(states.filter((stat) => !stat.includes(') Z '))).toEqual([]);
  {
    await using dead = new SQL(url, { max: 1, connectionTimeout: 2 });
    await expect(dead`SELECT 1`.execute()).rejects.toThrow();
  }
  await server.restart();
  await using sql = new SQL(url, { max: 1 });
  expect((await sql`SELECT id FROM t`)[0].id).toBe(7);
}, 300_000);
