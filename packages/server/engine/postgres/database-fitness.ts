/** Whether a database can hold our rows at all, asked before anything is made in it. */
import { StoreUnavailable } from '../../core/ports.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

const VERSION_NUMBER_MIN = 150_000;
/** They speak for PostgreSQL and count their versions their own way. */
const RELATIVES = /CockroachDB|-YB-/;
/** The state that PostgreSQL itself gives for what it cannot do: waiting does not help. */
const NOT_SUPPORTED = '0A000';

const READ_FACTS = `SELECT current_setting('server_encoding') AS encoding, version() AS version,
  current_setting('server_version_num')::int AS "versionNumber"`;

export interface DatabaseFacts {
  readonly encoding: string;
  /** as `version()` tells */
  readonly version: string;
  /** 150018 for 15.18 */
  readonly versionNumber: number;
}

/** @throws StoreUnavailable, one that no waiting heals */
export async function assertFit(pool: PostgresPool): Promise<void> {
  const { rows } = await pool.read('reading its version', READ_FACTS, []);
  const reason = whyUnfit(rows[0] as unknown as DatabaseFacts);
  if (reason === undefined) return;
  const cause = Object.assign(new Error('it lacks what Holdfast needs'), { code: NOT_SUPPORTED });
  throw new StoreUnavailable(`PostgreSQL: ${reason}`, { cause });
}

export function whyUnfit({ encoding, version, versionNumber }: DatabaseFacts): string | undefined {
  if (versionNumber < VERSION_NUMBER_MIN && !RELATIVES.test(version)) {
    return `the server is ${version.split(' ', 2).join(' ')}: run version 15 or newer`;
  }
  // Ids hold any character: in another encoding some Spaces could never be written.
  if (encoding !== 'UTF8')
    return `the database has the encoding ${encoding}: create one with ENCODING 'UTF8'`;
  return undefined;
}
