/** What a session is told at its start, so that no setting of a server, database or role changes what statements mean or answer. */
import { READ_ONLY } from '../failure.ts';
import type { PostgresLimits } from './limits.ts';
import type { SqlResult } from './sql-values.ts';

/**
 * One statement, since poolers refuse parameters of the start they do not know; settings that this server does not know are left
 * out. Every statement of this engine is a search by key, so one plan serves all values; `plansMs` bounds its age. What is
 * acknowledged is on disk: a server that would not wait for that is told to.
 */
export function settingsOf(limits: PostgresLimits): string {
  const settings = {
    statement_timeout: limits.statementMs,
    lock_timeout: limits.lockMs,
    idle_in_transaction_session_timeout: limits.idleInTransactionMs,
    transaction_timeout: 0,
    synchronous_commit: 'on',
    default_transaction_isolation: 'read committed',
    // How bytes are answered, and NULL is given in an array: as wire-messages.ts reads and writes them.
    bytea_output: 'hex',
    array_nulls: 'on',
    standard_conforming_strings: 'on',
    plan_cache_mode: 'force_generic_plan',
    enable_seqscan: 'off',
    jit: 'off',
  };
  const wanted = Object.entries(settings).map(([name, value]) => `('${name}', '${value}')`);
  return `SELECT set_config(name, CASE WHEN name = 'synchronous_commit' AND setting <> 'off' THEN setting ELSE value END, false),
      current_setting('transaction_read_only') = 'on' AS read_only
    FROM (VALUES ${wanted.join(', ')}) AS wanted (name, value) JOIN pg_settings USING (name)`;
}

/** `answer`: to the statement of `settingsOf`. @throws where nothing can be written: on a standby, or where an operator forbids it */
export function assertTakesWrites({ rows }: SqlResult): void {
  if (rows[0]?.read_only !== true) return;
  throw Object.assign(new Error('the server is read-only'), { code: READ_ONLY });
}
