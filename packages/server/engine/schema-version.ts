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

const MADE = [
  /\bCREATE (?:UNLOGGED |UNIQUE )?(?:TABLE|INDEX) (?:CONCURRENTLY )?(?:IF NOT EXISTS )?(?<name>\w+)/g,
  /\bALTER TABLE (?<name>\w+) ADD COLUMN (?:IF NOT EXISTS )?(?<column>\w+)/g,
];
const UNMADE =
  /\b(?:DROP (?:TABLE|INDEX|COLUMN)|RENAME COLUMN|ALTER TABLE(?= \w+ RENAME TO)) (?:CONCURRENTLY )?(?:IF EXISTS )?(\w+)/g;

/** What each migration makes that stays and that no earlier one made, in its order: `table`, `index` or `table.column`. */
function findMade(migrations: readonly Migration[]): readonly (readonly string[])[] {
  const unmade = new Set(migrations.flatMap(({ sql }) => [...sql.matchAll(UNMADE)].map(([, name]) => name)));
  const earlier = new Set<string>();
  return migrations.map(({ sql }) => {
    const made = MADE.flatMap((pattern) => [...sql.matchAll(pattern)])
      .toSorted((left, right) => left.index - right.index)
      .map(({ groups }) => [groups?.name, groups?.column].filter((part) => part !== undefined).join('.'));
    const kept = made.filter((each) => !earlier.has(each) && !unmade.has(each.split('.').at(-1)));
    for (const each of made) earlier.add(each);
    return kept;
  });
}

/**
 * The version that a database has by what is in it, if what it says is contradicted: by the oldest build that it allows, or because it lacks
 * all that its last migrations make. `names`: of its tables and indexes, and each column as `table.column`. `isWhole`: each migration and
 * its version are one transaction.
 */
export function proveVersion(
  { version, minCompatible }: SchemaVersion,
  names: ReadonlySet<string>,
  migrations: readonly Migration[],
  isWhole: boolean,
): number {
  const made = findMade(migrations);
  const last = made.findLastIndex((each) => names.has(each.at(-1) ?? '')) + 1;
  if (last === 0) return version;
  // A migration in steps may have made all, and not be finished.
  const isTooLow = version < last && (isWhole || version < minCompatible);
  const missing = made.slice(last, Math.max(last, version)).flat();
  // A newer build that takes away what an older one made refuses the older one.
  const isCompatible = minCompatible <= migrations.length;
  const isTooHigh = isCompatible && missing.length > 0 && !missing.some((each) => names.has(each));
  return isTooLow || isTooHigh ? last : version;
}
