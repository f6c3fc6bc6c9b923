/**
 * Time that a test moves on: the clock of one database and of the server processes over it, both while they run. The
 * database's is its own `clock_timestamp()`, found before the built-in one on the search path; the store of the bytes keeps
 * the real time.
 */
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import { ROOT } from './server-process.ts';
import { makeTempFolder } from './temp-folder.ts';

export interface MovableClock {
  /** ms; what the moved clocks say */
  now(): number;
  advance(ms: number): Promise<void>;
  /** for server processes; their clocks are off by `offsetMs` besides */
  environment(offsetMs?: number): Record<string, string>;
  close(): Promise<void>;
}

const SHIFTED_CLOCK = join(ROOT, 'test', 'support', 'shifted-clock.ts');

/** `metadataUrl`: a database nobody has connected to yet. */
export async function openMovableClock(metadataUrl: string): Promise<MovableClock> {
  const folder = makeTempFolder('clock');
  const path = join(folder.path, 'offset');
  const file = openSync(path, 'w+');
  let offsetMs = 0;
  const write = (): void => void writeSync(file, new Float64Array([offsetMs]), 0, 8, 0);
  write();
  const sql = new SQL(metadataUrl, { max: 1 });
  await installDatabaseClock(sql, new URL(metadataUrl).pathname.slice(1));
  return {
    now: () => Date.now() + offsetMs,
    async advance(ms) {
      offsetMs += ms;
      await sql`UPDATE test_clock SET offset_ms = ${offsetMs}`;
      write();
    },
    environment: (extraMs = 0) => ({
      ...shiftClock(extraMs),
      HOLDFAST_TEST_CLOCK_FILE: path,
    }),
    async close() {
      await sql.close();
      closeSync(file);
      folder.remove();
    },
  };
}

/** For a server process: its clock is off by so much. */
export function shiftClock(offsetMs: number): Record<string, string> {
  return {
    BUN_OPTIONS: `--preload=${SHIFTED_CLOCK}`,
    HOLDFAST_TEST_CLOCK_OFFSET_MS: String(offsetMs),
  };
}

async function installDatabaseClock(sql: SQL, database: string): Promise<void> {
  await sql.unsafe(`
    CREATE TABLE public.test_clock (offset_ms bigint NOT NULL);
    INSERT INTO public.test_clock VALUES (0);
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
      'SELECT pg_catalog.clock_timestamp() + (SELECT offset_ms FROM public.test_clock) * interval ''1 ms''';
    ALTER DATABASE ${database} SET search_path = public, pg_catalog;
  `);
}
