/** The databases that a build may use: those of its own schema, older ones after a migration, and newer ones that allow it. */
import { EngineRefused } from './refused.ts';

export interface Migration {
  readonly sql: string;
  /**
   * The oldest schema version whose builds still work on a database after this migration. A migration that only adds what older
   * builds pass over (a table, an index, a column with a default) repeats the number of the migration before it. One that older
   * builds would not survive names its own number, and ships with a new minor version.
   */
  readonly minCompatible: number;
}

/** The schema version that a database reports. */
export interface SchemaVersion {
  readonly version: number;
  /** 0: the build that migrated the database did not say */
  readonly minCompatible: number;
}

/** Whether `migrations` are to be run on the database. Throws EngineRefused if this build cannot use it; `name` is for its message. */
export function decideMigration(
  name: string,
  { version, minCompatible }: SchemaVersion,
  migrations: readonly Migration[],
): boolean {
  const known = migrations.length;
  if (version <= known) return version < known;
  if (minCompatible > 0 && minCompatible <= known) return false;
  throw new EngineRefused(
    `${name} has schema version ${version}, this build knows ${known}: run the newer Holdfast that migrated it, or restore a backup`,
  );
}

/** The schema version that a database reports after all of `migrations`. */
export function versionAfter(migrations: readonly Migration[]): SchemaVersion {
  return {
    version: migrations.length,
    minCompatible: Math.max(1, ...migrations.map(({ minCompatible }) => minCompatible)),
  };
}
