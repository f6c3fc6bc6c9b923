/** Checks that a database can hold our rows, before anything is made in it. */

import { EngineRefused } from '../refused.ts';
import type { PageChecksums } from '../store-trial.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** As SQL: 'on', 'off', or NULL where the server has no such setting. While they are being switched on they prove nothing yet. */
export const PAGE_CHECKSUMS = "current_setting('data_checksums', true)";

/** undefined: the server does not say, as relatives of PostgreSQL */
export function checksumsFromSql(setting: unknown): PageChecksums | undefined {
  if (typeof setting !== 'string') return undefined;
  return setting === 'on' ? 'on' : 'off';
}

export async function findPageChecksums(pool: PostgresPool): Promise<PageChecksums | undefined> {
  const { rows } = await pool.read('reading data_checksums', `SELECT ${PAGE_CHECKSUMS} AS setting`, []);
  return checksumsFromSql(rows[0]?.setting);
}

/** They speak the protocol of PostgreSQL but number their versions differently. */
const RELATIVES = /CockroachDB|-YB-/;
const READ_FACTS = `SELECT current_setting('server_encoding') AS encoding, version() AS version,
  current_setting('server_version_num')::int AS "versionNumber"`;

export interface DatabaseFacts {
  readonly encoding: string;
  /** as `version()` tells */
  readonly version: string;
  /** 150018 for 15.18 */
  readonly versionNumber: number;
}

/** @throws EngineRefused, StoreUnavailable */
export async function assertFit(pool: PostgresPool): Promise<void> {
  const { rows } = await pool.read('reading its version', READ_FACTS, []);
  const reason = whyUnfit(rows[0] as unknown as DatabaseFacts);
  if (reason !== undefined) throw new EngineRefused(`PostgreSQL: ${reason}`);
}

export function whyUnfit({ encoding, version, versionNumber }: DatabaseFacts): string | undefined {
  if (versionNumber < 150_000 && !RELATIVES.test(version)) {
    return `the server is ${version.split(' ', 2).join(' ')}: run version 15 or newer`;
  }
  // Ids may hold any character: in another encoding some Spaces could not be written.
  if (encoding !== 'UTF8')
    return `the database has the encoding ${encoding}: create one with ENCODING 'UTF8'`;
  return undefined;
}
