/** Keeps a whole deployment in PostgreSQL for one copy at a time, without a server beside it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineRefused } from '../refused.ts';
import { DEPLOYMENT_SQL } from './deployment-statements.ts';
import { guard } from './failure.ts';
import type { PostgresConnection } from './wire/connection.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

const DOING = 'looking for others';
/** ms; PostgreSQL may not have noticed yet that a process was killed */
const LOCK_MS_MAX = 5_000;
const LOCK_RETRY_MS = 100;

export interface HeldDeployment {
  release(): Promise<void>;
}

/** Holds one connection; the lock ends with the process. @throws EngineRefused, StoreUnavailable */
export async function holdDeployment(pool: PostgresPool): Promise<HeldDeployment> {
  const held = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const lent = pool.lend(async (connection) => {
    await nameSession(connection);
    await lock(connection);
    held.resolve();
    await released.promise;
    await connection.query(DEPLOYMENT_SQL.unlock).catch(() => undefined);
  });
  lent.catch(held.reject);
  await guard(DOING, () => held.promise);
  return {
    async release() {
      released.resolve();
      await lent;
    },
  };
}

async function lock(connection: PostgresConnection): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += LOCK_RETRY_MS) {
    const { rows } = await connection.query(DEPLOYMENT_SQL.tryLock);
    if (rows[0]?.locked === true) return;
    if (waitedMs >= LOCK_MS_MAX) {
      throw new EngineRefused(
        'another holdfast migrate works on this database: let it end, or stop it and run this command again',
      );
    }
    await sleep(LOCK_RETRY_MS);
  }
}

const nameSession = (connection: PostgresConnection): Promise<unknown> =>
  connection.query(DEPLOYMENT_SQL.nameSession);

/** Call while the pool is idle, so that its own sessions are known. Waits a moment for sessions to end. @throws EngineRefused */
export async function assertNoServer(pool: PostgresPool): Promise<void> {
  let row = await findServers(pool);
  for (let waitedMs = 0; row?.sessions !== 0 && row?.turns === 0; waitedMs += LOCK_RETRY_MS) {
    if (waitedMs >= LOCK_MS_MAX) break;
    await sleep(LOCK_RETRY_MS);
    row = await findServers(pool);
  }
  if (row?.sessions === 0 && row.turns === 0) return;
  throw new EngineRefused(
    `${row?.sessions} connections of holdfast servers are open to the database, or one worked there less than half a minute ago: stop every server on it, wait until then, and run this command again`,
  );
}

async function findServers(pool: PostgresPool): Promise<Readonly<Record<string, unknown>> | undefined> {
  const find = async (connection: PostgresConnection) => {
    await nameSession(connection);
    return (await connection.query(DEPLOYMENT_SQL.findServers, [pool.applicationName])).rows[0];
  };
  return guard(DOING, () => pool.lend(find));
}

/** Call before a server serves: refuses an unfinished copy, ends marks of earlier ones. @throws EngineRefused, StoreUnavailable */
export async function beginServing(pool: PostgresPool): Promise<void> {
  const { rows } = await pool.run('beginning to serve', DEPLOYMENT_SQL.beginServing, []);
  if (rows[0]?.unfinished === 0) return;
  throw new EngineRefused(
    'the database holds an unfinished copy of another deployment: finish it by the same holdfast migrate command, or begin with an empty database',
  );
}
