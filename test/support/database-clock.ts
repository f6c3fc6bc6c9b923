/**
 * Time that a test moves on, in one database while servers run over it: its clock functions, found before the built-in
 * ones on the search path. Servers judge leases, expiries and collections by it; their own clocks and the store of the bytes
 * keep the real time.
 */
import { SQL } from 'bun';

export interface DatabaseClock {
  /** ms */
  now(): number;
  advance(ms: number): Promise<void>;
}

const CLOCKS = ['clock_timestamp', 'statement_timestamp', 'transaction_timestamp', 'now'] as const;

function shadow(name: string): string {
  return `CREATE FUNCTION public.${name}() RETURNS timestamptz LANGUAGE sql VOLATILE AS
    'SELECT pg_catalog.${name}() + (SELECT offset_ms FROM public.test_clock) * interval ''1 ms''';`;
}

/** `metadataUrl`: a database nobody has connected to yet. */
export async function openDatabaseClock(metadataUrl: string): Promise<DatabaseClock> {
  let offsetMs = 0;
  const run = async (statement: string): Promise<void> => {
    // A connection for each: the database may have been restarted since the last one.
    await using sql = new SQL(metadataUrl, { max: 1 });
    await sql.unsafe(statement);
  };
  await run(`
    CREATE TABLE public.test_clock (offset_ms bigint NOT NULL);
    INSERT INTO public.test_clock VALUES (0);
    ${CLOCKS.map(shadow).join('\n')}
    ALTER DATABASE ${new URL(metadataUrl).pathname.slice(1)} SET search_path = public, pg_catalog;
  `);
  return {
    now: () => Date.now() + offsetMs,
    async advance(ms) {
      await run(`UPDATE public.test_clock SET offset_ms = offset_ms + ${Math.round(ms)}`);
      offsetMs += Math.round(ms);
    },
  };
}
