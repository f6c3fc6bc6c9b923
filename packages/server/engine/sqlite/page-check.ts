/** Looks at every page of the databases of a data folder, table by table, while a server may write to them. */
import type { Database } from 'bun:sqlite';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { PageDamage, RowLook } from '../../core/inspection-ports.ts';
import { openReader } from './database.ts';
import { assertSchema } from './migrations.ts';
import { assertDamage, isOutOfOrder, rebuild } from './rebuild-table.ts';
import { REGISTRY_FILE } from './registry-store.ts';
import { ROWS_FILE } from './rows-file.ts';
import { PROTECTING_TABLES } from './sums/tables.ts';

const REMEDY = 'check the disk and restore a backup of the folder';
const ORDER_REMEDY =
  'check the disk; check --repair puts its rows in order, else restore a backup of the folder';
const INDEX_REMEDY = 'check the disk; check --repair builds the index anew';

/** One step of the check: what was found, and what comes now. */
export interface PageCheckStep {
  /** the table that is looked at next, with its indexes; undefined: there is no other */
  readonly table: string | undefined;
  /** one for each damaged table or index since the step before */
  readonly damage: readonly PageDamage[];
}

/** Blocks while it looks at a table, each at its own instant. `isRepaired`: damaged indexes are rebuilt, which blocks writers. */
export function* checkPages(dataDir: string, isRepaired: boolean): Generator<PageCheckStep> {
  let damage: readonly PageDamage[] = [];
  for (const file of [ROWS_FILE, REGISTRY_FILE]) {
    const path = join(dataDir, file);
    if (!existsSync(path)) continue;
    try {
      // Pages are read once and in order: a larger cache would help nothing.
      using database = openReader(path, 1024 * 1024);
      if (file === ROWS_FILE) assertSchema(database);
      const names = readNames(database);
      for (const table of names.tables) {
        yield { table: `${table} of ${file}`, damage };
        const found = findDamage(database, table, names.ofRoots);
        const repaired = isRepaired && found.length > 0 && rebuild(path, table);
        const isProtecting = PROTECTING_TABLES.has(table);
        damage = found.map(({ index, text }) => {
          const ofTable = isOutOfOrder(text) ? ORDER_REMEDY : REMEDY;
          const remedy = index === undefined ? ofTable : INDEX_REMEDY;
          return { message: `${file}: ${text}; ${remedy}`, isProtecting, repaired };
        });
      }
    } catch (error) {
      assertDamage(error);
      const message = `${file}: ${(error as Error).message}; ${REMEDY}`;
      damage = [...damage, { message, isProtecting: file === ROWS_FILE, repaired: false }];
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
    ofRoots: new Map(
      rows.map(({ type, name, rootpage }) => [String(rootpage), type === 'index' ? name : '']),
    ),
  };
}

interface Damage {
  /** undefined: it is the table itself */
  readonly index: string | undefined;
  readonly text: string;
}

/** Compares each row with each index, too: by an index that has another key a row is missed, and no page of it looks wrong. */
function findDamage(database: Database, table: string, ofRoots: Names['ofRoots']): Damage[] {
  const found = new Map<string, string[]>();
  const note = (index: string, text: string): void => {
    // If rows of the table cannot be read, its indexes correctly have more.
    if (index !== '' && found.has('') && /\bindex \S+$/.test(text)) return;
    found.set(index, [...(found.get(index) ?? []), text]);
  };
  try {
    using statement = database.prepare<{ integrity_check: string }, []>(`PRAGMA integrity_check("${table}")`);
    for (const { integrity_check: text } of statement.iterate()) {
      for (const line of text.split('\n')) {
        if (line === 'ok' || line.startsWith('***')) continue;
        const [, root = '', what = line] = /^Tree (\d+) (.*)$/.exec(line) ?? [];
        const [, index = ''] = /\bindex (\S+)$/.exec(line) ?? [];
        note(ofRoots.get(root) ?? index, what);
      }
    }
  } catch (error) {
    assertDamage(error);
    // SQLite may say first what is damaged, and then give up because of it.
    if (found.size === 0) note('', (error as Error).message);
  }
  return [...found].map(([index, [first, ...more]]) => {
    const others = more.length === 0 ? '' : ` (and ${more.length} more)`;
    const what = index === '' ? `the table ${table}` : `the index ${index}`;
    return { index: index || undefined, text: `${what} is damaged: ${first}${others}` };
  });
}

/** The thread's first file. It lies beside this one, with the same name in the sources and in a build. */
const ENTRY = import.meta.url.endsWith('.ts') ? './page-check-thread.ts' : './page-check-thread.js';

/** In a thread, because SQLite blocks the one that asks it, for minutes. After an abort: what was found until then. */
export async function findPageDamage(
  path: string,
  { signal, onTable, isRepaired }: RowLook,
): Promise<readonly PageDamage[]> {
  const damage: PageDamage[] = [];
  if (signal.aborted) return damage;
  const thread = new Worker(new URL(ENTRY, import.meta.url));
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const stop = (): void => resolve();
  signal.addEventListener('abort', stop);
  thread.addEventListener('message', ({ data }: MessageEvent<PageCheckStep>) => {
    damage.push(...data.damage);
    if (data.table === undefined) resolve();
    else onTable(data.table);
  });
  thread.addEventListener('error', ({ message }) =>
    reject(new Error(`the thread that checks pages failed: ${message}`)),
  );
  thread.addEventListener('close', () => reject(new Error('the thread that checks pages has ended')));
  thread.postMessage({ dataDir: dirname(path), isRepaired });
  try {
    await promise;
    return damage;
  } finally {
    signal.removeEventListener('abort', stop);
    thread.terminate();
  }
}
