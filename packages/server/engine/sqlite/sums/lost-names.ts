/** A row with a wrong name hides all that belongs to it. So these rows are read when the database opens, and when a name has no row. */
import type { Database } from 'bun:sqlite';
import { isDamageMet } from '../../local-failure.ts';
import { findFault, letGoOfPages } from '../database.ts';
import type { LostNames } from '../space-directory.ts';
import { findDamagedRows, type StoredRow } from './damaged-rows.ts';
import { DOMAINS, SPACE_NAMES, type SummedTable } from './tables.ts';

/** When the database is opened: indexes are looked at too. */
export function findLostNames(database: Database): LostNames {
  const found = lookForLostNames(database);
  const isFaulty = ({ name }: SummedTable): boolean => {
    try {
      return findFault(database, name) !== undefined;
    } catch (error) {
      if (!isDamageMet(error)) throw error;
      return true;
    }
  };
  const isSpaceUnknown = found.isSpaceUnknown || isFaulty(SPACE_NAMES);
  const isDomainUnknown = found.isDomainUnknown || isFaulty(DOMAINS);
  // The next read goes to the disk, so that it finds a page that was damaged meanwhile.
  letGoOfPages(database);
  return { ...found, isSpaceUnknown, isDomainUnknown };
}

export function lookForLostNames(database: Database): LostNames {
  const spaces = findNames(database, SPACE_NAMES, ({ app_id, space_id }) => ({
    ...{ appId: String(app_id), spaceId: String(space_id) },
  }));
  const domains = findNames(database, DOMAINS, ({ space, domain }) => ({
    ...{ spaceId: Number(space), domain: String(domain) },
  }));
  return {
    ...{ spaces: spaces.names, isSpaceUnknown: spaces.isUnknown },
    ...{ domains: domains.names, isDomainUnknown: domains.isUnknown },
  };
}

/** Those of damaged rows, as they were if that is known. */
function findNames<T>(
  database: Database,
  table: SummedTable,
  nameOf: (row: StoredRow) => T,
): { readonly names: readonly (T & { readonly isProven: boolean })[]; readonly isUnknown: boolean } {
  const names: (T & { readonly isProven: boolean })[] = [];
  try {
    for (const { row, mended } of findDamagedRows(database, table))
      names.push({ ...nameOf(mended ?? row), isProven: mended !== undefined });
    return { names, isUnknown: false };
  } catch (error) {
    if (!isDamageMet(error)) throw error;
    return { names, isUnknown: true };
  }
}
