/** Each migration is one transaction; `user_version` says how many ran, `holdfast_schema` which builds may use the result. */
import { Database } from 'bun:sqlite';
import {
  decideMigration,
  type FoundVersion,
  type Migration,
  proveVersion,
  type SchemaVersion,
  sealed,
  versionAfter,
} from '../schema-version.ts';
import { DatabaseDamaged } from './database.ts';
import initial from './migrations/0001-initial.sql' with { type: 'text' };
import sharedStores from './migrations/0002-shared-stores.sql' with { type: 'text' };
import rottenNodes from './migrations/0003-rotten-nodes.sql' with { type: 'text' };
import spacesByApp from './migrations/0004-spaces-by-app.sql' with { type: 'text' };
import tombstones from './migrations/0005-tombstones.sql' with { type: 'text' };
import packs from './migrations/0006-packs.sql' with { type: 'text' };
import contentsToPack from './migrations/0007-contents-to-pack.sql' with { type: 'text' };
import packsDying from './migrations/0008-packs-dying.sql' with { type: 'text' };
import pending from './migrations/0009-pending.sql' with { type: 'text' };
import rowSums from './migrations/0010-row-sums.sql' with { type: 'text' };
import storeSums from './migrations/0011-store-sums.sql' with { type: 'text' };
import walks from './migrations/0012-walks.sql' with { type: 'text' };
import commitMarks from './migrations/0013-commit-marks.sql' with { type: 'text' };
import { fillSums } from './sums/fill-sums.ts';

interface SqliteMigration extends Migration {
  /** what SQL cannot work out */
  readonly fill?: (database: Database) => void;
}

/** In order; a migration that has shipped is never edited. */
const MIGRATIONS: readonly SqliteMigration[] = [
  { sql: initial, minCompatible: 1 },
  { sql: sharedStores, minCompatible: 2 },
  { sql: rottenNodes, minCompatible: 3 },
  { sql: spacesByApp, minCompatible: 3 },
  { sql: tombstones, minCompatible: 3 },
  { sql: packs, minCompatible: 6 },
  { sql: contentsToPack, minCompatible: 6 },
  { sql: packsDying, minCompatible: 6 },
  { sql: pending, minCompatible: 6 },
  { sql: rowSums, minCompatible: 10, fill: fillSums },
  { sql: storeSums, minCompatible: 11 },
  { sql: walks, minCompatible: 12 },
  { sql: commitMarks, minCompatible: 12 },
];

const CREATE_TABLE =
  'CREATE TABLE IF NOT EXISTS holdfast_schema (id INTEGER PRIMARY KEY CHECK (id = 1), min_compatible_version INTEGER NOT NULL) STRICT';

/** @throws EngineRefused when this build cannot use the database. */
export function migrate(
  database: Database,
  path: string,
  migrations: readonly SqliteMigration[] = MIGRATIONS,
): void {
  const isLeft = (): boolean => {
    const proven = prove(database, path, migrations);
    if (decideMigration(path, proven, migrations)) return true;
    // A newer build's is left as it is.
    return proven.version === migrations.length && !Bun.deepEquals(sealed(proven), readVersion(database));
  };
  if (!isLeft()) return;
  // The version is read again after BEGIN IMMEDIATE: of several processes that open a new folder one migrates, the others find
  // it done.
  database.run('BEGIN IMMEDIATE');
  try {
    if (isLeft()) {
      const missing = migrations.slice(prove(database, path, migrations).version);
      for (const { sql } of missing) database.run(sql);
      // Sums are over the columns of this build.
      for (const { fill } of missing) fill?.(database);
      writeVersion(database, sealed(versionAfter(migrations)));
    }
    database.run('COMMIT');
  } catch (error) {
    if (database.inTransaction) database.run('ROLLBACK');
    throw error;
  }
}

const FIND_NAMES = `SELECT name FROM sqlite_master UNION ALL
  SELECT m.name || '.' || c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'`;

/** A wrong bit in the version must not run a migration twice, or leave one out. */
function prove(database: Database, path: string, migrations: readonly SqliteMigration[]): SchemaVersion {
  using statement = database.prepare<{ name: string }, []>(FIND_NAMES);
  const names = new Set(statement.all().map(({ name }) => name));
  return proveVersion(path, readVersion(database), names, migrations, true);
}

/** The schema version of a database that this build can use, after migrating it or as it is. @throws EngineRefused */
export function getUsableVersion(database: Database, path: string): number {
  const proven = prove(database, path, MIGRATIONS);
  decideMigration(path, proven, MIGRATIONS);
  return proven.version;
}

function readVersion(database: Database): FoundVersion {
  using statement = database.prepare<{ version: number; seal: number }, []>(
    'SELECT user_version AS version, application_id AS seal FROM pragma_user_version, pragma_application_id',
  );
  const { version, seal } = statement.get() ?? { version: 0, seal: 0 };
  return { version, minCompatible: readMinCompatible(database), step: 0, seal };
}

/** Databases of builds that did not record it have no table. */
function readMinCompatible(database: Database): number {
  using tables = database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'holdfast_schema'");
  if (tables.get() === null) return 0;
  using statement = database.prepare<{ min_compatible_version: number }, []>(
    'SELECT min_compatible_version FROM holdfast_schema',
  );
  return statement.get()?.min_compatible_version ?? 0;
}

function writeVersion(database: Database, { version, minCompatible, seal }: FoundVersion): void {
  database.run(CREATE_TABLE);
  database.run('INSERT OR REPLACE INTO holdfast_schema (id, min_compatible_version) VALUES (1, ?1)', [
    minCompatible,
  ]);
  database.run(`PRAGMA user_version = ${version}`);
  database.run(`PRAGMA application_id = ${seal}`);
}

/** by name; an index that SQLite made by itself has no text */
type Schema = ReadonlyMap<string, string>;

let known: Schema | undefined;

/**
 * A server goes by the schema that it read at its start. A connection that is opened later would go by a wrong bit in it: rows then have
 * other columns. Databases of another version are not compared. @throws DatabaseDamaged
 */
export function assertSchema(database: Database): void {
  using version = database.prepare<{ user_version: number }, []>('PRAGMA user_version');
  if (version.get()?.user_version !== MIGRATIONS.length) return;
  known ??= makeSchema();
  const found = readSchema(database);
  // What an operator's tool has added is not damage: a wrong name of ours would be missing.
  const wrong = [...known].find(([name, sql]) => found.get(name) !== sql);
  if (wrong !== undefined) throw new DatabaseDamaged(`the schema of ${wrong[0]} is not as it was written`);
  using roots = database.prepare<{ name: string }, []>(
    'SELECT name FROM sqlite_schema GROUP BY rootpage HAVING count(*) > 1',
  );
  // To empty one of two trees that have one root would empty the other.
  const shared = roots.get();
  if (shared !== null) throw new DatabaseDamaged(`the place of ${shared.name} is not as it was written`);
}

function makeSchema(): Schema {
  using made = new Database(':memory:');
  migrate(made, 'the schema of this build');
  return readSchema(made);
}

/** Versions of SQLite differ in the quotes and spaces that a renamed column leaves. */
function readSchema(database: Database): Schema {
  using statement = database.prepare<{ type: unknown; name: string; tbl_name: unknown; sql: unknown }, []>(
    'SELECT type, name, tbl_name, sql FROM sqlite_schema',
  );
  return new Map(
    statement.all().map(({ type, name, tbl_name, sql }) => {
      const text = typeof sql === 'string' ? sql.replaceAll(/["\s]/g, '') : typeof sql;
      return [name, `${type} ${tbl_name} ${text}`];
    }),
  );
}
