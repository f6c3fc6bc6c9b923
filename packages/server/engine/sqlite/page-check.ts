/** Looks at every page of the databases of a data folder, table by table, while a server may write to them. */
import type { Database } from 'bun:sqlite';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf } from '../../error-code.ts';
import { openReader } from './database.ts';
import { REGISTRY_FILE } from './registry-store.ts';
import { ROWS_FILE } from './rows-file.ts';

/** Pages are read once and in order: a larger cache would help nothing. */
const CACHE_BYTES = 1024 * 1024;
/** What SQLite says of pages that are damaged, or that the disk does not give. */
const DAMAGE = /^SQLITE_(?:CORRUPT|NOTADB|IOERR)/;
const REMEDY = 'check the disk and restore a backup of the folder';

/** One step of the check: what was found, and what comes now. */
export interface PageCheckStep {
  /** the table that is looked at next, with its indexes; undefined: there is no other */
  readonly table: string | undefined;
  /** one text for each damaged table or index since the step before */
  readonly damage: readonly string[];
}

/** Blocks while it looks at a table. Each table is read at an instant of its own, so the log is held no longer than that. */
export function* checkPages(dataDir: string): Generator<PageCheckStep> {
  let damage: readonly string[] = [];
  for (const file of [ROWS_FILE, REGISTRY_FILE]) {
    const path = join(dataDir, file);
    if (!existsSync(path)) continue;
    try {
      const database = openReader(path, CACHE_BYTES);
      try {
        const names = readNames(database);
        for (const table of names.tables) {
          yield { table: `${table} of ${file}`, damage };
          damage = checkTable(database, table, names.ofRoots).map((text) => `${file}: ${text}; ${REMEDY}`);
        }
      } finally {
        database.close();
      }
    } catch (error) {
      assertDamage(error);
      damage = [...damage, `${file}: ${(error as Error).message}; ${REMEDY}`];
    }
  }
  yield { table: undefined, damage };
}

interface Names {
  readonly tables: readonly string[];
  /** by the number of the root page, by which SQLite speaks of a tree */
  readonly ofRoots: ReadonlyMap<string, string>;
}

function readNames(database: Database): Names {
  using statement = database.prepare<{ type: string; name: string; rootpage: number }, []>(
    'SELECT type, name, rootpage FROM sqlite_schema WHERE rootpage > 0 ORDER BY rootpage',
  );
  const rows = statement.all();
  return {
    tables: rows.filter(({ type }) => type === 'table').map(({ name }) => name),
    ofRoots: new Map(rows.map(({ type, name, rootpage }) => [String(rootpage), `the ${type} ${name}`])),
  };
}

/** `quick_check` does not look up each row in each index, which takes 20 times as long. It looks at all of their pages. */
function checkTable(database: Database, table: string, ofRoots: Names['ofRoots']): string[] {
  const self = `the table ${table}`;
  const found = new Map<string, string[]>();
  const note = (name: string, text: string): void => {
    found.set(name, [...(found.get(name) ?? []), text]);
  };
  try {
    using statement = database.prepare<{ quick_check: string }, []>(`PRAGMA quick_check("${table}")`);
    for (const { quick_check: text } of statement.iterate()) {
      for (const line of text.split('\n')) {
        if (line === 'ok' || line.startsWith('***')) continue;
        const [, root = '', what = line] = /^Tree (\d+) (.*)$/.exec(line) ?? [];
        const [, index] = /^wrong # of entries in index (\S+)$/.exec(line) ?? [];
        // Where rows of the table cannot be read, its indexes are right to have more.
        if (index !== undefined && found.has(self)) continue;
        note(ofRoots.get(root) ?? (index === undefined ? self : `the index ${index}`), what);
      }
    }
  } catch (error) {
    assertDamage(error);
    // SQLite may say first what is damaged, and then give up because of it.
    if (found.size === 0) note(self, (error as Error).message);
  }
  return [...found].map(([name, [first, ...more]]) => {
    const others = more.length === 0 ? '' : ` (and ${more.length} more)`;
    return `${name} is damaged: ${first}${others}`;
  });
}

/** Too many open files, or a lack of memory, says nothing of the pages. */
function assertDamage(error: unknown): void {
  if (!DAMAGE.test(codeOf(error) ?? '')) throw error;
}
