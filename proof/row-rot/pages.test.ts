/** As row-rot.test.ts, with one wrong bit in a page of the database. */
import { expect, test } from 'bun:test';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { pagesSubject } from './pages.ts';
import { runRowRot } from './run.ts';

const DAMAGES = 200;
const TEST_MS_MAX = 1_200_000;
/** Any other will do: the failures say which damage it was. */
const SEED = 27;

test(
  'pages with one wrong bit',
  async () => {
    const folder = makeTempFolder('row-rot-pages', { fast: true });
    try {
      const subject = pagesSubject(folder.path);
      const { damages, failures } = await runRowRot({ subject, seed: SEED, damagesMax: DAMAGES });
      expect(failures).toEqual([]);
      expect(damages).toBe(DAMAGES);
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);
