/**
 * Settings of every session, so that no setting of a server, database or role changes what statements mean or return. A pooler
 * may give the next transaction another session, so each one looks first whether it is in the session that was set up.
 */
import { READ_ONLY } from '../failure.ts';
import { POSTGRES_LIMITS, type PostgresLimits } from './limits.ts';
import type { SqlResult } from './sql-values.ts';

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
export function settingsOf(limits: PostgresLimits): string {
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

/** Only what every session sets: the server may change the rest when it reads its configuration again. */
const RELIED_ON: readonly string[] = [...Object.keys(settingsFor(POSTGRES_LIMITS)), ...KEPT];

/** The identity of the session and its settings. */
const STATE = `concat_ws(' ', pg_backend_pid(), ${RELIED_ON.map((name) => `current_setting('${name}', true)`).join(', ')})`;

/** `state` as `guardOf` takes it */
export const READ_STATE = `SELECT ${STATE} AS state`;

/** Has no rows. Fails with SWITCHED (failure.ts) unless the session's state is `state`. */
const guardBy = (state: string): string =>
  `SELECT WHERE sqrt(CASE WHEN ${STATE} = ${state} THEN 1 ELSE -1 END) < 0`;

/** $1 the state that READ_STATE answered */
export const GUARD = guardBy('$1');

/** These go unguarded: the end of a transaction, which follows a statement that was guarded, and what must be alone in its message. */
const UNGUARDED = /^\s*(?:COMMIT|ROLLBACK|(?:CREATE|DROP) INDEX CONCURRENTLY)\b/;
const BEGINS = /^\s*BEGIN\b[^;]*/;

/**
 * Whether the guard comes before or after the first statement of a flight: a transaction that has read can no longer choose its isolation.
 */
export function placeOfGuard(text: string): 'before' | 'after' | undefined {
  if (UNGUARDED.test(text)) return undefined;
  return BEGINS.test(text) ? 'after' : 'before';
}

/** The script, with its guard. */
export function guardScript(text: string, state: string): string {
  const guard = guardBy(`'${state.replaceAll("'", "''")}'`);
  const place = placeOfGuard(text);
  if (place === undefined) return text;
  return place === 'before' ? `${guard}; ${text}` : text.replace(BEGINS, (begin) => `${begin}; ${guard}`);
}
