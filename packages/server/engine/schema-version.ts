/** The databases that a build may use: those of its own schema, older ones after a migration, and newer ones that allow it. */
import { sha256 } from '../core/signer.ts';
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
  /** statements of the next migration that were run, where a migration is made in steps */
  readonly step: number;
}

/** As a database has it. */
export interface FoundVersion extends SchemaVersion {
  /** `sealOf` the rest; 0: of a build that wrote none */
  readonly seal: number;
}

/** Proves the numbers by which a build decides whether to migrate. One wrong bit of it is not 0. */
function sealOf({ version, minCompatible, step }: SchemaVersion): number {
  const digest = sha256(new TextEncoder().encode(`schema ${version} ${minCompatible} ${step}`));
  return (new DataView(digest.buffer, digest.byteOffset).getUint32(0) & 0x3fffffff) | 0x40000001;
}

export const sealed = (proven: SchemaVersion): FoundVersion => ({ ...proven, seal: sealOf(proven) });

/** Whether `migrations` are to be run on the database. Throws EngineRefused if this build cannot use it; `name` is for its message. */
export function decideMigration(
  name: string,
  { version, minCompatible }: SchemaVersion,
  migrations: readonly Migration[],
): boolean {
  const known = migrations.length;
  if (version <= known && minCompatible <= known) return version < known;
  if (minCompatible > 0 && minCompatible <= known) return false;
  throw new EngineRefused(
    `${name} has schema version ${Math.max(version, minCompatible)}, this build knows ${known}: run the newer Holdfast that migrated it, or restore a backup`,
  );
}

/** The schema version that a database reports after all of `migrations`. */
export function versionAfter(migrations: readonly Migration[]): SchemaVersion {
  return {
    version: migrations.length,
    minCompatible: Math.max(1, ...migrations.map(({ minCompatible }) => minCompatible)),
    step: 0,
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

const VERSION_BITS = 32;

/**
 * What a database says of its schema, with a wrong bit put right: that must run no migration twice, leave none out, and pass for no other
 * build's schema. @throws EngineRefused if nothing proves it. `name` is for its message, the rest as of `proveUnsealed`.
 */
export function proveVersion(
  name: string,
  found: FoundVersion,
  names: ReadonlySet<string>,
  migrations: readonly Migration[],
  isWhole: boolean,
): SchemaVersion {
  const { seal, ...said } = found;
  if (seal === 0) return { ...said, ...proveUnsealed(said, names, migrations, isWhole) };
  const isOneBit = (difference: number): boolean => (difference & (difference - 1)) === 0;
  if (isOneBit(seal ^ sealOf(said))) return said;
  const known = migrations.map((_, index) => versionAfter(migrations.slice(0, index + 1)));
  const flipped = Array.from({ length: VERSION_BITS }, (_, bit) => {
    const { version, minCompatible, step } = said;
    return [
      { ...said, version: version ^ (1 << bit) },
      { ...said, minCompatible: minCompatible ^ (1 << bit) },
      { ...said, step: step ^ (1 << bit) },
    ];
  });
  const right = [...flipped.flat(), ...known].find((each) => sealOf(each) === seal);
  if (right !== undefined) return right;
  throw new EngineRefused(
    `${name} has a damaged schema version: it says ${said.version}, and nothing proves that: restore a backup`,
  );
}

/**
 * Of a database of a build that wrote no seal: the version by what is in it, if what it says is contradicted: by the oldest build that it allows, or because it lacks
 * all that its last migrations make. `names`: of its tables and indexes, and each column as `table.column`. `isWhole`: each migration and
 * its version are one transaction.
 */
function proveUnsealed(
  { version, minCompatible, step }: SchemaVersion,
  names: ReadonlySet<string>,
  migrations: readonly Migration[],
  isWhole: boolean,
): Pick<SchemaVersion, 'version' | 'step'> {
  const made = findMade(migrations);
  const last = made.findLastIndex((each) => names.has(each.at(-1) ?? '')) + 1;
  if (last === 0) return { version, step };
  // A migration in steps may have made all, and not be finished.
  const isTooLow = version < last && (isWhole || version < minCompatible);
  const missing = made.slice(last, Math.max(last, version)).flat();
  // A newer build that takes away what an older one made refuses the older one.
  const isCompatible = minCompatible <= migrations.length;
  const isTooHigh = isCompatible && missing.length > 0 && !missing.some((each) => names.has(each));
  return isTooLow || isTooHigh ? { version: last, step: 0 } : { version, step };
}
