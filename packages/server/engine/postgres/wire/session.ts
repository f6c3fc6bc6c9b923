/**
 * Settings of every session, so that no setting of a server, database or role changes what statements mean or return. A pooler
 * may give the next transaction another session, so each one looks first whether it is in the session that was set up.
 */
import { READ_ONLY } from '../failure.ts';
import type { PostgresLimits } from './limits.ts';
import type { SqlResult } from './wire-messages.ts';
import { closed } from './wire-socket.ts';

const settingsFor = (limits: PostgresLimits) => ({
  statement_timeout: limits.statementMs,
  lock_timeout: limits.lockMs,
  idle_in_transaction_session_timeout: limits.idleInTransactionMs,
  transaction_timeout: 0,
  synchronous_commit: 'on',
  default_transaction_isolation: 'read committed',
  // The formats of bytes and of NULL in an array that wire-messages.ts reads and writes.
  bytea_output: 'hex',
  array_nulls: 'on',
  standard_conforming_strings: 'on',
});

/** Settings that change the cost of answers, not the answers. */
const PLANNING = { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off', jit: 'off' };

/** Settings that stay as the session found them: the database or its role may choose where our tables are. */
const KEPT = ['search_path', 'role'] as const;

/**
 * One statement, because poolers refuse start parameters that they do not know. It leaves out settings that this server does not
 * know. Every statement of this engine is a search by key, so one plan serves all values; `plansMs` bounds its age. A commit
 * always waits for the disk, even if the server is set up otherwise.
 */
function settingsOf(limits: PostgresLimits): string {
  const wanted = Object.entries({ ...settingsFor(limits), ...PLANNING }).map(
    ([name, value]) => `('${name}', '${value}')`,
  );
  // Kept settings are set too, so that a server that reloads its configuration does not change them.
  const kept = KEPT.map((name) => `('${name}', NULL)`);
  return `SELECT set_config(name, CASE WHEN value IS NULL OR name = 'synchronous_commit' AND setting <> 'off' THEN setting ELSE value END, false),
      current_setting('transaction_read_only') = 'on' AS read_only
    FROM (VALUES ${[...wanted, ...kept].join(', ')}) AS wanted (name, value) JOIN pg_settings USING (name)`;
}

/** For a session that is only looked at. */
export const READ_WRITABILITY = "SELECT current_setting('transaction_read_only') = 'on' AS read_only";

/** Takes the answer to `settingsOf`. @throws if nothing can be written: on a standby, or if an operator forbids it */
export function assertTakesWrites({ rows }: SqlResult): void {
  if (rows[0]?.read_only !== true) return;
  throw Object.assign(new Error('the server is read-only'), { code: READ_ONLY });
}

/**
 * What a guard looks at: whether a commit waits for the disk, what a transaction sees, whether NULL in an array is NULL, and which tables a
 * name means. parseRow refuses bytes in another form, and a process gives up by its own clock what takes too long.
 */
const RELIED_ON = ['synchronous_commit', 'default_transaction_isolation', 'array_nulls', ...KEPT];

/** The identity of the session and its settings. */
const STATE = `concat_ws(' ', pg_backend_pid(), ${RELIED_ON.map((name) => `current_setting('${name}', true)`).join(', ')})`;

/** The schema of the tables, or the one in which they will be made */
const SCHEMA = `coalesce((SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('nodes')), quote_ident(current_schema()))`;

const READ_STATE = `SELECT ${STATE} AS state, ${SCHEMA} AS schema`;

/**
 * Each stands in a statement as a condition that is looked at before any row. A session prepares its guard in this place. So no statement
 * has to lead it, which would cost half as much as a read: each function that a statement names costs 1 µs.
 */
export const OWN_SESSION = 'true /* in the session that was set up */';
/**
 * Before each table of a read that is never part of a transaction. A session prepares the name of the schema in this place, so that the
 * read relies on no setting and needs no guard. parseRow refuses bytes in another form.
 */
export const OWN_SCHEMA = '/* the schema of the session that was set up */ ';

/** They fail with SWITCHED (failure.ts) in any other session. */
export interface Guards {
  /** a condition, for OWN_SESSION */
  readonly within: string;
  /** a statement without rows */
  readonly leading: string;
  /** the name with its dot, for OWN_SCHEMA; empty where there is none */
  readonly schema: string;
}

/** Sets the session up by two statements of one flight. @throws if nothing can be written, or if the server does not say how it is set up */
export async function setUpSession(
  query: (text: string) => Promise<SqlResult>,
  limits: PostgresLimits,
): Promise<Guards> {
  const [settings, state] = await Promise.all([query(settingsOf(limits)), query(READ_STATE)]);
  assertTakesWrites(settings);
  return guardsOf(state);
}

function guardsOf({ rows: [row] }: SqlResult): Guards {
  const { state, schema } = row ?? {};
  if (typeof state !== 'string') throw closed('the server does not say how the session is set up');
  const within = `sqrt(CASE WHEN ${STATE} = '${state.replaceAll("'", "''")}' THEN 1 ELSE -1 END) IS NOT NULL`;
  return {
    within,
    leading: `SELECT WHERE NOT (${within})`,
    schema: typeof schema === 'string' ? `${schema}.` : '',
  };
}

/** The statement, with the guards that it takes by itself */
export const withGuards = (text: string, { within, schema }: Guards): string =>
  text.replaceAll(OWN_SESSION, () => within).replaceAll(OWN_SCHEMA, () => schema);

const BEGINS = /^\s*BEGIN\b[^;]*/;

/** How a statement takes the guard: by itself, before it, after it, or not at all. */
export type GuardPlace = 'within' | 'before' | 'after' | 'none';

/**
 * After BEGIN, because a transaction that has read can no longer choose its isolation. The end of a transaction follows a statement that
 * was guarded. Other statements without a guard must be alone in their message.
 */
export function placeOfGuard(text: string): GuardPlace {
  if (/^\s*(?:COMMIT|ROLLBACK|(?:CREATE|DROP) INDEX CONCURRENTLY)\b/.test(text)) return 'none';
  if (text.includes(OWN_SCHEMA)) return 'none';
  if (BEGINS.test(text)) return 'after';
  return text.includes(OWN_SESSION) ? 'within' : 'before';
}

/** The script, with its guard if it needs one. */
export function guardScript(text: string, guards: Guards | undefined): string {
  const place = placeOfGuard(text);
  if (guards === undefined || place === 'none') return text;
  if (place === 'after') return text.replace(BEGINS, (begin) => `${begin}; ${guards.leading}`);
  return `${guards.leading}; ${text}`;
}
