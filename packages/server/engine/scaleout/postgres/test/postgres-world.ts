/** A store, or several on one database as several processes have them, on a real PostgreSQL. */
import {
  openPostgres as openServer,
  type TestDatabases,
} from '../../../../../../test/support/postgres-server.ts';
import type { Clock } from '../../../../core/ports.ts';
import { parsePostgresUrl } from '../../../../engine-urls.ts';
import type { PostgresAddress } from '../address.ts';
import type { PostgresPool } from '../connection-pool.ts';
import type { PostgresLimits } from '../limits.ts';
import { PostgresMetadataStore } from '../metadata-store.ts';
import { openPostgres } from '../open-postgres.ts';

interface StoreInstance {
  readonly store: PostgresMetadataStore;
  readonly pool: PostgresPool;
  /** what the store has called fatal */
  readonly fatal: Error[];
  close(): Promise<void>;
}

interface InstanceOptions {
  readonly clock?: Clock;
  readonly limits?: Partial<PostgresLimits>;
  readonly connectionsMax?: number;
}

/** PostgreSQL itself, for all tests of a file. */
export function openDatabases(): Promise<TestDatabases> {
  return openServer();
}

export function addressOf(url: string, changes: Partial<PostgresAddress> = {}): PostgresAddress {
  return { ...parsePostgresUrl(url, {}), ...changes };
}

/** What one process has. */
export async function openInstance(url: string, options: InstanceOptions = {}): Promise<StoreInstance> {
  const { clock, limits, connectionsMax = 8 } = options;
  const fatal: Error[] = [];
  const pool = await openPostgres(addressOf(url, { connectionsMax }), limits);
  const store = await PostgresMetadataStore.open({
    pool,
    onFatal: (error) => fatal.push(error),
    ...(clock === undefined ? {} : { clock }),
  });
  return {
    store,
    pool,
    fatal,
    async close() {
      await store.close();
      await pool.close();
    },
  };
}
