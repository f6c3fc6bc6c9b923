/** One wrong bit of any value of any row leads to no wrong answer, and to no loss of what a root ref, a lease or a parent keeps. */
import { expect, test } from 'bun:test';
import { makeTempFolder } from '../../test/support/temp-folder.ts';
import { folderSubject } from './folder.ts';
import { meanwhileSubject } from './meanwhile.ts';
import { runRowRot } from './run.ts';

const DAMAGES = 300;
const DAMAGES_MEANWHILE = 60;
const TEST_MS_MAX = 1_200_000;
/** Any other will do: the failures say which damage it was. */
const SEED = 27;

test(
  'rows with one wrong bit',
  async () => {
    const folder = makeTempFolder('row-rot', { fast: true });
    try {
      const { damages, failures, unseen } = await runRowRot({
        ...{ subject: folderSubject(folder.path), seed: SEED, damagesMax: DAMAGES },
      });
      expect({ failures, unseen }).toEqual({ failures: [], unseen: [] });
      expect(damages).toBe(DAMAGES);
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);

test(
  'rows that become wrong while everything that reads, moves or deletes is at work',
  async () => {
    const folder = makeTempFolder('row-rot-meanwhile', { fast: true });
    try {
      const { damages, failures } = await runRowRot({
        ...{ subject: meanwhileSubject(folder.path), seed: SEED, damagesMax: DAMAGES_MEANWHILE },
      });
      expect(failures).toEqual([]);
      expect(damages).toBe(DAMAGES_MEANWHILE);
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);
