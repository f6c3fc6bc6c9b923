/**
 * A Space or a domain is found by its name. If one bit of that name is wrong in its row, the name has no row, and all that belongs to it
 * would look absent. So these rows are looked at once, when the database is opened.
 */
import type { Database } from 'bun:sqlite';
import { spaceKeyOf } from '../../../core/space-key.ts';
import { letGoOfPages } from '../database.ts';
import type { LostNames } from '../space-directory.ts';
import { findDamagedRows } from './damaged-rows.ts';
import { DOMAINS, SPACE_NAMES } from './tables.ts';

export function findLostNames(database: Database): LostNames {
  const spaces = new Set<string>();
  const domains = new Set<string>();
  for (const { mended: row } of findDamagedRows(database, SPACE_NAMES)) {
    if (row === undefined) continue;
    spaces.add(spaceKeyOf({ appId: row.app_id as string, spaceId: row.space_id as string }));
  }
  for (const { mended: row } of findDamagedRows(database, DOMAINS)) {
    if (row !== undefined) domains.add(`${row.space} ${row.domain}`);
  }
  // What is read next asks the disk: a page that is damaged by then is met.
  letGoOfPages(database);
  return { spaces, domains };
}
