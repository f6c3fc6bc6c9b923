/** As row-rot.test.ts, and the damaged folder goes through a backup and a restore, or a migration, before it is judged. */
import { expect, test } from 'bun:test';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { journeysSubject } from './folder.ts';
import { runRowRot } from './run.ts';

const DAMAGES = 60;
const TEST_MS_MAX = 1_200_000;
/** Any other will do: the failures say which damage it was. */
const SEED = 28;

test(
  'rows with one wrong bit, backed up and restored, or copied',
  async () => {
    const folder = makeTempFolder('row-rot-journeys', { fast: true });
    try {
      const { damages, failures, refusals } = await runRowRot({
        ...{ subject: journeysSubject(folder.path), seed: SEED, damagesMax: DAMAGES },
      });
      expect(failures).toEqual([]);
      expect(damages).toBe(DAMAGES);
      // A copy takes no row that is damaged; a backup takes all.
      expect(refusals.filter((each) => !each.includes(', migrate: '))).toEqual([]);
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);
