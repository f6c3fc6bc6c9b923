import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import {
  openPostgres as openTestPostgres,
  type TestDatabases,
} from '../../../../test/support/postgres-server.ts';
import { parsePostgresUrl } from '../postgres-url.ts';
import { PostgresTurns } from './background-turns.ts';
import { DEPLOYMENT_SQL } from './deployment-statements.ts';
import { openPostgres } from './open-postgres.ts';
import { findOrCreateSecret, findSecret } from './secrets.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

const START_MS_MAX = 300_000;

let databases: TestDatabases;
let pool: PostgresPool;

beforeAll(async () => {
  databases = await openTestPostgres();
  const url = await databases.createDatabase();
  pool = await openPostgres({ ...parsePostgresUrl(url, {}), connectionsMax: 4 });
}, START_MS_MAX);
afterAll(async () => {
  await pool.close();
  await databases.close();
});

describe('turns', () => {
  beforeEach(async () => {
    await pool.run('emptying', 'DELETE FROM background_turns', []);
  });
  /** Ends every turn, as if its holder had been silent for longer than a turn lasts. */
  const expire = () =>
    pool.run('expiring', 'UPDATE background_turns SET held_until = held_until - 31000', []);
  const [one, two] = ['one', 'two'].map((name) => ({
    take: (task: string) => new PostgresTurns(pool, name).take(task),
    note: (task: string, position?: string) => new PostgresTurns(pool, name).note(task, position),
    release: () => new PostgresTurns(pool, name).release(),
  })) as [PostgresTurns, PostgresTurns];

  test('one process at a time has a turn, each task has its own', async () => {
    expect(await one.take('sweep')).toEqual({ position: undefined });
    expect(await two.take('sweep')).toBeUndefined();
    expect(await two.take('scrub')).toEqual({ position: undefined });
    expect(await one.take('scrub')).toBeUndefined();
    expect(await one.take('sweep')).toEqual({ position: undefined });
  });

  test('a turn whose end has a wrong bit holds up neither its task nor a copy for ever', async () => {
    await one.take('sweep');
    for (const bit of [20, 40, 60]) {
      await pool.run(
        'damaging',
        `UPDATE background_turns SET held_until = held_until + (1::bigint << ${bit})`,
        [],
      );
      const [row] = (await pool.read('looking', DEPLOYMENT_SQL.findServers, ['none'])).rows;
      expect(row?.turns).toBe(0);
      expect(await two.take('sweep')).toEqual({ position: undefined });
      expect(await one.take('sweep')).toBeUndefined();
      await two.release();
      await one.take('sweep');
    }
  });

  test('a turn goes on where it was left, when it is given up or its holder is gone', async () => {
    await one.take('scrub');
    await one.note('scrub', 'half way');
    await one.release();
    expect(await two.take('scrub')).toEqual({ position: 'half way' });
    await two.note('scrub', 'further');
    expect(await one.take('scrub')).toBeUndefined();
    await expire();
    expect(await one.take('scrub')).toEqual({ position: 'further' });
    await two.note('scrub', 'late');
    expect(await one.take('scrub')).toEqual({ position: 'further' });
    await two.release();
    expect(await two.take('scrub')).toBeUndefined();
    await one.note('scrub', undefined);
    expect(await one.take('scrub')).toEqual({ position: undefined });
  });

  test('of many processes that ask for a turn at once, one gets it', async () => {
    const asked = Array.from({ length: 12 }, (_, at) => new PostgresTurns(pool, `p${at}`).take('sweep'));
    expect((await Promise.all(asked)).filter((turn) => turn !== undefined)).toHaveLength(1);
  });
});

describe('shared values', () => {
  test('are made once, however many processes start at once', async () => {
    expect(await findSecret(pool, 'signer')).toBeUndefined();
    const made = Array.from({ length: 8 }, (_, at) =>
      findOrCreateSecret(pool, 'signer', () => new Uint8Array(32).fill(at)),
    );
    const values = new Set((await Promise.all(made)).map((value) => value.toHex()));
    expect(values.size).toBe(1);
    const found = await findSecret(pool, 'signer');
    expect(values.has((found as Uint8Array).toHex())).toBe(true);
    expect(await findSecret(pool, 'other')).toBeUndefined();
  });
});
