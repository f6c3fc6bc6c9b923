/** Sums over the Spaces of Apps, read beside a server or without one. Changes nothing. */
import { Database } from 'bun:sqlite';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { AppTotals } from '../../core/tenancy-ports.ts';
import { NO_HOLDINGS } from '../../core/usage-delta.ts';
import { guardNow } from '../local-failure.ts';
import { appTotalsFromSql, NO_COUNTERS } from './space-counters.ts';
import { COUNTERS_OF_APP, type SqlRow, SUM_HOLDINGS } from './statements.ts';

export function readSqliteAppTotals(dataDir: string, appId: string): AppTotals {
  const path = join(dataDir, 'holdfast.db');
  const { leasedNodeCount: _, ...none } = NO_COUNTERS;
  if (!existsSync(path)) return { spaces: 0, ...none, ...NO_HOLDINGS };
  return guardNow('reading what Apps store', () => {
    // It may write, because the log of a database without a server is opened by the first to come; it does not.
    using database = new Database(path, { readwrite: true, create: false });
    using counters = database.prepare<SqlRow, [string]>(COUNTERS_OF_APP);
    using holdings = database.prepare<SqlRow, [string]>(SUM_HOLDINGS);
    return appTotalsFromSql(counters.iterate(appId), holdings.get(appId) as SqlRow);
  });
}
