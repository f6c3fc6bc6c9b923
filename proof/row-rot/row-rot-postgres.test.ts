/** As row-rot.test.ts, with rows in PostgreSQL. */
import { expect, test } from 'bun:test';
import { openPostgres } from '../../test/support/postgres-server.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { postgresSubject } from './postgres.ts';
import { runRowRot } from './run.ts';

const DAMAGES = 20;
const MIGRATED_DAMAGES = 6;
const TEST_MS_MAX = 1_200_000;
/** Any other will do: the failures say which damage it was. */
const SEED = 27;

test.each([
  ['rows with a wrong value', DAMAGES, false],
  ['the same, migrated to a data folder', MIGRATED_DAMAGES, true],
])(
  '%s',
  async (_name, damagesMax, isMigrated) => {
    const databases = await openPostgres();
    const folder = makeTempFolder('row-rot-postgres', { fast: true });
    try {
      const subject = postgresSubject(await databases.createDatabase(), isMigrated ? folder.path : undefined);
      const { damages, failures } = await runRowRot({ subject, seed: SEED, damagesMax });
      expect(failures).toEqual([]);
      expect(damages).toBe(damagesMax);
    } finally {
      folder.remove();
      await databases.close();
    }
  },
  TEST_MS_MAX,
);
