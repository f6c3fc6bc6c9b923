/** Brings a database to this build's schema. Each migration is one transaction; `user_version` says how many ran. */
import type { Database } from 'bun:sqlite';
import { EngineRefused } from '../refused.ts';
import initial from './migrations/0001-initial.sql' with { type: 'text' };
import sharedStores from './migrations/0002-shared-stores.sql' with { type: 'text' };
import rottenNodes from './migrations/0003-rotten-nodes.sql' with { type: 'text' };

/** In order; a migration that has shipped is never edited. */
const MIGRATIONS: readonly string[] = [initial, sharedStores, rottenNodes];

/** @throws EngineRefused when the database knows migrations that this build does not. */
export function migrate(database: Database, path: string, migrations: readonly string[] = MIGRATIONS): void {
  if (readVersion(database) === migrations.length) return;
  // The version is read again after BEGIN IMMEDIATE: of several processes that open a new folder one migrates, the others find
  // it done.
  database.run('BEGIN IMMEDIATE');
  try {
    const version = readVersion(database);
    if (version > migrations.length) {
      throw new EngineRefused(
        `${path} has schema version ${version}, this build knows ${migrations.length}: run the newer Holdfast that wrote it, or restore a backup`,
      );
    }
    for (const sql of migrations.slice(version)) database.run(sql);
    database.run(`PRAGMA user_version = ${migrations.length}`);
    database.run('COMMIT');
  } catch (error) {
    if (database.inTransaction) database.run('ROLLBACK');
    throw error;
  }
}

function readVersion(database: Database): number {
  using statement = database.prepare<{ user_version: number }, []>('PRAGMA user_version');
  return statement.get()?.user_version ?? 0;
}
