/** Settings of every session, so that no setting of a server, database or role changes what statements mean or return. */
import { READ_ONLY } from '../failure.ts';
import type { PostgresLimits } from './limits.ts';
import type { SqlResult } from './sql-values.ts';

/**
 * One statement, because poolers refuse start parameters that they do not know. It leaves out settings that this server does not
 * know. Every statement of this engine is a search by key, so one plan serves all values; `plansMs` bounds its age. A commit
 * always waits for the disk, even if the server is set up otherwise.
 */
export function settingsOf(limits: PostgresLimits): string {
  const settings = {
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
    plan_cache_mode: 'force_generic_plan',
    enable_seqscan: 'off',
    jit: 'off',
  };
  const wanted = Object.entries(settings).map(([name, value]) => `('${name}', '${value}')`);
  return `SELECT set_config(name, CASE WHEN name = 'synchronous_commit' AND setting <> 'off' THEN setting ELSE value END, false),
      current_setting('transaction_read_only') = 'on' AS read_only
    FROM (VALUES ${wanted.join(', ')}) AS wanted (name, value) JOIN pg_settings USING (name)`;
}

/** Takes the answer to `settingsOf`. @throws if nothing can be written: on a standby, or if an operator forbids it */
export function assertTakesWrites({ rows }: SqlResult): void {
  if (rows[0]?.read_only !== true) return;
  throw Object.assign(new Error('the server is read-only'), { code: READ_ONLY });
}
