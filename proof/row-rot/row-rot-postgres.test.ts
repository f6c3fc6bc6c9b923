/** As row-rot.test.ts, with rows in PostgreSQL. */
import { expect, test } from 'bun:test';
import { openPostgres } from '../../test/support/postgres-server.ts';
import { postgresSubject } from './postgres.ts';
import { runRowRot } from './run.ts';

const DAMAGES = 20;
const TEST_MS_MAX = 1_200_000;
/** Any other will do: the failures say which damage it was. */
const SEED = 27;

test(
  'rows with a wrong value',
  async () => {
    const databases = await openPostgres();
    try {
      const subject = postgresSubject(await databases.createDatabase());
      const { damages, failures } = await runRowRot({ subject, seed: SEED, damagesMax: DAMAGES });
      expect(failures).toEqual([]);
      expect(damages).toBe(DAMAGES);
    } finally {
      await databases.close();
    }
  },
  TEST_MS_MAX,
);
