/** The registry of Apps in PostgreSQL, shared by every server and by the command line. */
import type { RegistryStore } from '../../auth/registry-store.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { FIND_UNSUMMED, RowsRegistry } from '../rows/registry.ts';
import { type RowWork, runLater } from '../rows/work.ts';
import { isRepeatable, storageError } from './failure.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

const WORDS = {
  readVersion: 'SELECT version FROM apps_version WHERE id = 1',
  now: 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint',
  digestOf: (text: string): string => `sha256(convert_to(${text}, 'UTF8'))`,
};
/** Every change begins with it: changes run one after another. */
const LOCK = 'UPDATE apps_version SET version = version + 1 WHERE id = 1';

/** On a migrated database. The caller closes the pool. The verbs throw StoreUnavailable. */
export const openPostgresRegistryStore = (pool: PostgresPool): RegistryStore => openRegistry(pool);

/** When a server starts: Apps that are older than sums get theirs. */
export async function sealApps(pool: PostgresPool): Promise<void> {
  const { rows } = await pool.read('reading the registry', FIND_UNSUMMED, []);
  if (rows.length > 0) await openRegistry(pool).seal();
}

function openRegistry(pool: PostgresPool): RowsRegistry {
  return new RowsRegistry({
    ...{ words: WORDS, Failure: StoreUnavailable, close: () => undefined },
    read: (work) =>
      runLater(work, async (sql, values) => (await pool.read('reading the registry', sql, values)).rows),
    async transact(work, isDone) {
      // Again if it conflicted with another change.
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await transactOnce(pool, work(), isDone);
        } catch (error) {
          // People make the changes, so two of them conflict a few times at most.
          if (!isRepeatable(error) || attempt === 20) throw storageError(error, 'changing the registry');
        }
        await Bun.sleep(50 * Math.random());
      }
    },
  });
}

/** Moves the version on. Leaves nothing if nothing was done, or if the work fails. */
function transactOnce<T>(pool: PostgresPool, work: RowWork<T>, isDone: (outcome: T) => boolean): Promise<T> {
  return pool.lend(async (connection) => {
    await connection.query('BEGIN', []);
    try {
      await connection.query(LOCK, []);
      const outcome = await runLater(work, async (sql, values) => (await connection.query(sql, values)).rows);
      await connection.query(isDone(outcome) ? 'COMMIT' : 'ROLLBACK', []);
      return outcome;
    } catch (error) {
      await connection.rollback();
      throw error;
    }
  });
}
