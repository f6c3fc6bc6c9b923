/** Opens the rows of a data folder for writing, as whole as they can be made. */
import { type Database, SQLiteError } from 'bun:sqlite';
import { assertWholePages, findFault, openWriter } from './database.ts';
import { migrate } from './migrations.ts';
import { proveStore } from './sums/fill-sums.ts';

/**
 * The tables by which Spaces and domains are found: without a row there, everything in them looks absent. And the one whose values are put right
 * at each start, for which they must be found: in that table the index is the order of its rows.
 */
const LOOKED_AT = ['store', 'spaces', 'domains'] as const;

/** Indexes follow from the rows. If one cannot be rebuilt, the names that it may hide are lost (sums/lost-names.ts). */
function rebuildIndexes(database: Database, table: string): void {
  try {
    if (findFault(database, table) !== undefined) database.run(`REINDEX ${table}`);
  } catch (error) {
    if (!(error instanceof SQLiteError)) throw error;
  }
}

/** Brings the database to this build's schema. @throws EngineRefused, DatabaseDamaged */
export function openSound(path: string): Database {
  assertWholePages(path);
  const database = openWriter(path, undefined);
  try {
    migrate(database, path);
    for (const table of LOOKED_AT) rebuildIndexes(database, table);
    proveStore(database);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}
