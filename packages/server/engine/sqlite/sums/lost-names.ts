/**
 * A Space or a domain is found by its name. If one bit of that name is wrong in its row, the name has no row, and all that belongs to it
 * would look absent. So these rows are looked at once, when the database is opened.
 */
import type { Database } from 'bun:sqlite';
import { spaceKeyOf } from '../../../core/space-key.ts';
import { isDamageMet } from '../../local-failure.ts';
import { findFault, letGoOfPages } from '../database.ts';
import type { LostNames } from '../space-directory.ts';
import { findDamagedRows, type StoredRow } from './damaged-rows.ts';
import { DOMAINS, SPACE_NAMES, type SummedTable } from './tables.ts';

export function findLostNames(database: Database): LostNames {
  const spaces = findMended(database, SPACE_NAMES);
  const domains = findMended(database, DOMAINS);
  // What is read next asks the disk: a page that is damaged by then is met.
  letGoOfPages(database);
  return {
    spaces: new Set(
      spaces.rows.map((row) => spaceKeyOf({ appId: String(row.app_id), spaceId: String(row.space_id) })),
    ),
    domains: new Set(domains.rows.map((row) => `${row.space} ${row.domain}`)),
    ...{ isSpaceUnknown: spaces.isMore, isDomainUnknown: domains.isMore },
  };
}

/** Damaged rows as they were. `isMore`: of others nobody knows what they were, or whether they are there. */
function findMended(database: Database, table: SummedTable): { rows: StoredRow[]; isMore: boolean } {
  const rows: StoredRow[] = [];
  let isMore = false;
  try {
    for (const { mended } of findDamagedRows(database, table)) {
      if (mended === undefined) isMore = true;
      else rows.push(mended);
    }
    return { rows, isMore: isMore || findFault(database, table.name) !== undefined };
  } catch (error) {
    if (!isDamageMet(error)) throw error;
    return { rows, isMore: true };
  }
}
