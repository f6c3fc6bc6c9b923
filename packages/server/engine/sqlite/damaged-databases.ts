/** Reads and repairs the databases of a data folder that was restored from a damaged backup. No process has them open. */
import { Database } from 'bun:sqlite';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Hash } from '@holdfast/protocol';
import type { Space } from '../../core/model.ts';
import type { UnreadableNode } from '../backup-ports.ts';
import { REGISTRY_FILE } from './registry-store.ts';
import { ROWS_FILE } from './rows-file.ts';

/** Compares all tables with their indexes and rules. */
function findDamage(dataDir: string): string[] {
  return [ROWS_FILE, REGISTRY_FILE].flatMap((name) => {
    if (!existsSync(join(dataDir, name))) return [];
    try {
      return withDatabase(dataDir, name, (database) => {
        using statement = database.prepare<{ integrity_check: string }, []>('PRAGMA integrity_check(20)');
        const found = statement.all().map(({ integrity_check: text }) => text);
        return found.filter((text) => text !== 'ok').map((text) => `${name}: ${text}`);
      });
    } catch (error) {
      return [`${name}: ${(error as Error).message}`];
    }
  });
}

/** The pages, from 0 on, of the table of contents; undefined if the database does not tell. */
function findContentPages(dataDir: string, name: string): ReadonlySet<number> | undefined {
  if (name !== ROWS_FILE) return new Set();
  try {
    return withDatabase(dataDir, name, (database) => {
      using statement = database.prepare<{ pageno: number }, []>(
        "SELECT pageno FROM dbstat WHERE name = 'contents'",
      );
      return new Set(statement.all().map(({ pageno }) => pageno - 1));
    });
  } catch {
    return undefined;
  }
}

/** An index whose table cannot be read stays as it is. */
function rebuildIndexes(dataDir: string): void {
  for (const name of [ROWS_FILE, REGISTRY_FILE]) {
    if (!existsSync(join(dataDir, name))) continue;
    try {
      withDatabase(dataDir, name, (database) => {
        const indexes = database
          .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'index'")
          .all();
        for (const index of indexes) rebuild(database, index.name);
      });
    } catch {
      // A process that opens the database reports its fault.
    }
  }
}

function rebuild(database: Database, index: string): void {
  try {
    database.run(`REINDEX "${index.replaceAll('"', '""')}"`);
  } catch {
    // The table has a damaged page: its rows are found by what is left of the index.
  }
}

/** The index of leases has the hash of each node, on pages of its own. */
function findUnreadableNodes(dataDir: string): UnreadableNode[] {
  const found: UnreadableNode[] = [];
  try {
    withDatabase(dataDir, ROWS_FILE, (database) => {
      const spaces = readSpaces(database);
      using probe = database.prepare('SELECT canonical_size FROM nodes WHERE space = ?1 AND hash = ?2');
      const isReadable = (space: number, hash: Uint8Array): boolean => {
        try {
          return probe.get(space, hash) !== null;
        } catch {
          return false;
        }
      };
      using statement = database.prepare<{ space: number; hash: Uint8Array }, []>(
        'SELECT space, hash FROM nodes INDEXED BY nodes_by_lease',
      );
      for (const { space, hash } of statement.iterate()) {
        const named = spaces.get(space);
        if (named === undefined || isReadable(space, hash)) continue;
        found.push({ space: named, hash: Buffer.from(hash).toString('hex') as Hash });
      }
    });
  } catch {
    // The index is damaged too: what it told so far is all that is known.
  }
  return found;
}

function readSpaces(database: Database): ReadonlyMap<number, Space> {
  type Row = { readonly id: number; readonly app_id: string; readonly space_id: string };
  using statement = database.prepare<Row, []>('SELECT id, app_id, space_id FROM spaces');
  return new Map(statement.all().map((row) => [row.id, { appId: row.app_id, spaceId: row.space_id }]));
}

function withDatabase<T>(dataDir: string, name: string, work: (database: Database) => T): T {
  using database = new Database(join(dataDir, name), { readwrite: true, create: false });
  return work(database);
}

/** The part of engine/backup-ports.ts FolderFormat that is about damage. */
export const FOLDER_DAMAGE = { findDamage, findContentPages, rebuildIndexes, findUnreadableNodes };
