/** Looks for a pooler that gives each transaction another session, without leaving a setting in any of them. */
import type { PostgresAddress } from '../../address.ts';
import { connectTimedOut, SWITCHED } from '../failure.ts';
import { PostgresConnection } from './connection.ts';
import type { PostgresLimits } from './limits.ts';

/** Tells these sessions from those of servers. */
const LOOKER = 'holdfast-check';
/** A pooler in statement mode refuses a transaction as a violation of the protocol. */
const NO_TRANSACTIONS = '08P01';

/** Rejects with SWITCHED (failure.ts) if a connection does not keep its session, or with why there is no connection. */
export async function assertOwnSessions(address: PostgresAddress, limits: PostgresLimits): Promise<void> {
  const opened: PostgresConnection[] = [];
  const open = async (hosts: PostgresAddress['hosts']) => {
    const connection = await PostgresConnection.open(
      { ...address, hosts, applicationName: LOOKER },
      limits,
      { roundTrips: 0 },
      { isBare: true },
    );
    opened.push(connection);
    return connection;
  };
  const timer = setTimeout(() => {
    for (const connection of opened) connection.lose(connectTimedOut());
  }, 2 * limits.connectMs);
  try {
    const first = await open(address.hosts);
    const session = await sessionOf(first);
    // A pooler that hands its sessions out in turn, or at random, shows within a few looks.
    for (let looks = 1; looks < 12; looks += 1) assertSame(session, await sessionOf(first));
    const second = await open([first.host]);
    await beginOn(second);
    try {
      // A pooler that hands out the session that was used last now gives both of them the same one, or the first one another.
      if ((await sessionOf(second)) === session) throw switched();
      assertSame(session, await sessionOf(first));
    } finally {
      await second.script('ROLLBACK').catch(() => undefined);
    }
  } finally {
    clearTimeout(timer);
    await Promise.all(opened.map((connection) => connection.end()));
  }
}

async function sessionOf(connection: PostgresConnection): Promise<unknown> {
  return (await connection.script('SELECT pg_backend_pid() AS session')).rows[0]?.session;
}

async function beginOn(connection: PostgresConnection): Promise<void> {
  try {
    await connection.script('BEGIN');
  } catch (error) {
    throw (error as { code?: unknown }).code === NO_TRANSACTIONS ? switched() : error;
  }
}

function assertSame(session: unknown, found: unknown): void {
  if (found !== session) throw switched();
}

const switched = (): Error =>
  Object.assign(new Error('a connection has got the session of another one'), { code: SWITCHED });
