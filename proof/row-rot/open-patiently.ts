/** A database of PostgreSQL for proofs: on a machine that is busy for a minute, what was slow must not look as if it had failed. */
import { openPostgres } from '../../packages/server/engine/postgres/open-postgres.ts';
import type { PostgresPool } from '../../packages/server/engine/postgres/wire/connection-pool.ts';
import { parsePostgresUrl } from '../../packages/server/engine/postgres-url.ts';

/** ms; only ends what hangs */
const PATIENCE_MS = 300_000;

export function openPatiently(url: string, connectionsMax: number): Promise<PostgresPool> {
  return openPostgres(
    { ...parsePostgresUrl(url, {}), connectionsMax },
    {
      ...{ connectMs: PATIENCE_MS, statementMs: PATIENCE_MS, idleInTransactionMs: PATIENCE_MS },
      ...{ silenceMs: PATIENCE_MS, doubtMs: PATIENCE_MS, proofMs: PATIENCE_MS, admissionMs: PATIENCE_MS },
    },
  );
}
