/** The databases of a data folder as they are backed up, and what makes them another deployment's when they are restored. */
import type { Database } from 'bun:sqlite';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { RowDamage } from '../../core/inspection-ports.ts';
import { MENDED_BEFORE_RAISING, REVISION_STEP } from '../../core/store-epoch.ts';
import type { BackedUpDatabase, NamedObject, PinnedPages } from '../backup-ports.ts';
import { openSound } from './open-sound.ts';
import { pinDatabase, SqlitePageSnapshot, watchCommits, withPin } from './page-snapshot.ts';
import { REGISTRY_FILE } from './registry-store.ts';
import { ROWS_FILE } from './rows-file.ts';
import { RAISE_FIRST_REVISION, RAISE_REVISIONS } from './statements.ts';
import {
  copyMarkName,
  findIdentities,
  findNotedMarker,
  isMarkedElsewhere,
  renewFolderIdentity,
} from './store-identity.ts';
import { checkRows } from './sums/check-rows.ts';

/** The rows, and the registry of Apps where there is one. */
export function findFolderDatabases(dataDir: string): BackedUpDatabase[] {
  const names = [ROWS_FILE, REGISTRY_FILE].filter((name) => existsSync(join(dataDir, name)));
  return names.map((name) => {
    const path = join(dataDir, name);
    return {
      name,
      glance: () => withPin(path, (pin) => new SqlitePageSnapshot(path, pin)),
      pin: () => pinPages(path, name === ROWS_FILE),
      watchCommits: () => withPin(path, () => watchCommits(path)),
    };
  });
}

function pinPages(path: string, hasRows: boolean): PinnedPages {
  const pin = pinDatabase(path);
  const pages = new SqlitePageSnapshot(path, pin);
  return Object.assign(pages, {
    findNamed: () => (hasRows ? findNamedObjects(pin) : []),
    release: () => void pin.run('COMMIT'),
  });
}

/** The generations of rotten and claimed nodes, which are never read. */
const UNREADABLE =
  'SELECT generation FROM nodes WHERE state = 2 UNION SELECT generation FROM nodes WHERE state = 3';
const HAS_PACKS = "SELECT 1 AS found FROM sqlite_schema WHERE type = 'table' AND name = 'packs'";
/** of the schemas before packs */
const NAMED_WITHOUT_PACKS = `SELECT generation, canonical_size AS bytes, generation NOT IN (${UNREADABLE}) AS needed
  FROM contents WHERE (inline_bytes IS NULL OR length(inline_bytes) <> canonical_size)`;
/** A count of live records can be wrong, so the records themselves say which packs are needed. */
const NAMED = `${NAMED_WITHOUT_PACKS} AND pack IS NULL
  UNION ALL
  SELECT pack, (SELECT bytes FROM packs WHERE packs.generation = contents.pack), max(generation NOT IN (${UNREADABLE}))
    FROM contents WHERE pack IS NOT NULL GROUP BY pack`;

function* findNamedObjects(pin: Database): Iterable<NamedObject> {
  const sql = pin.query(HAS_PACKS).get() === null ? NAMED_WITHOUT_PACKS : NAMED;
  type Row = { readonly generation: Uint8Array; readonly bytes: number | null; readonly needed: number };
  using statement = pin.prepare<Row, []>(sql);
  for (const { generation, bytes, needed } of statement.iterate()) {
    const name = Buffer.from(generation).toString('hex');
    yield { generation: name, bytes: bytes ?? undefined, isNeeded: needed === 1 };
  }
}

export function countFolderNodes(dataDir: string): number {
  return withPin(join(dataDir, ROWS_FILE), (pin) => {
    using statement = pin.prepare<{ nodes: number }, []>('SELECT total(node_count) AS nodes FROM spaces');
    return statement.get()?.nodes ?? 0;
  });
}

export function areFolderBytesElsewhere(dataDir: string): boolean {
  return withPin(join(dataDir, ROWS_FILE), isMarkedElsewhere);
}

export function findFolderIdentities(dataDir: string): string[] {
  return withPin(join(dataDir, ROWS_FILE), findIdentities);
}

/** The id that the marker of the content folder must hold; undefined before the rows have noted one. */
export function findFolderMarker(dataDir: string): string | undefined {
  return withPin(join(dataDir, ROWS_FILE), findNotedMarker);
}

/**
 * Makes rows that were copied from a backup a deployment of their own: another identity of their content folder, revisions above all
 * that clients have seen, and no marks of copies. The database is open nowhere else. Durable when it resolves, with what it mended.
 */
export async function renewFolderRows(dataDir: string): Promise<readonly RowDamage[]> {
  const path = join(dataDir, ROWS_FILE);
  // Rows of an older schema too.
  using database = openSound(path);
  const mended = await checkRows(path, { ...MENDED_BEFORE_RAISING, signal: new AbortController().signal });
  database.run('PRAGMA synchronous = FULL');
  database.transaction(() => {
    renewFolderIdentity(database);
    for (const name of ['epoch', 'finished'] as const) {
      database.run('DELETE FROM store WHERE name = ?1', [copyMarkName(name)]);
    }
    for (const sql of [RAISE_FIRST_REVISION, RAISE_REVISIONS]) database.run(sql, [REVISION_STEP]);
  })();
  database.run('PRAGMA wal_checkpoint(TRUNCATE)');
  return mended.filter(({ repaired }) => repaired);
}
