/** As row-rot.test.ts, with rows in PostgreSQL. */
import { expect, test } from 'bun:test';
import { openPostgres } from '../../test/support/postgres-server.ts';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { postgresMeanwhileSubject, postgresSubject } from './postgres.ts';
import { runRowRot } from './run.ts';
import type { Subject } from './subject.ts';

const DAMAGES = 20;
const OTHER_DAMAGES = 6;
const TEST_MS_MAX = 1_200_000;
/** Any other will do: the failures say which damage it was. */
const SEED = 27;

test.each<[string, number, (url: string, folder: string) => Subject]>([
  ['rows with a wrong value', DAMAGES, (url) => postgresSubject(url)],
  ['the same, migrated to a data folder', OTHER_DAMAGES, postgresSubject],
  ['the same while everything is at work', OTHER_DAMAGES, postgresMeanwhileSubject],
])(
  '%s',
  async (_name, damagesMax, subjectOf) => {
    const databases = await openPostgres();
    const folder = makeTempFolder('row-rot-postgres', { fast: true });
    try {
      const subject = subjectOf(await databases.createDatabase(), folder.path);
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
