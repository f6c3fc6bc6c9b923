/** What was acknowledged outlives a power loss at any moment, and no fsync can be left out without that being seen. */
import { afterAll, expect, test } from 'bun:test';
import { makeRandom } from '../../test/support/seeded-random.ts';
import { ensureStrace } from '../../test/support/strace.ts';
import { readFailures } from '../failures.ts';
import { makeBackupScenario, makePullScenario, makeRestoreScenario } from './command-scenarios.ts';
import type { Inode } from './disk-steps.ts';
import { judgeImage, judgeImages, type Scenario } from './images.ts';
import type { Loss } from './power-loss.ts';
import { makeServeScenario } from './verify-serve.ts';

/** Any other will do: the proof takes others. */
const SEED = 27;
const IMAGES = 55;
const IMAGES_OF_A_COMMAND = 15;
/** None of them in vain: that an fsync is missing shows at most moments. */
const TRIES_MAX = 200;
const TEST_MS_MAX = 600_000;
const LOSSES: readonly Loss[] = [
  { disk: 'strict', writes: 'none', names: 'none' },
  { disk: 'strict', writes: 'none', names: 'all' },
  { disk: 'strict', writes: 'torn-512', names: 'some' },
];

const canTrace = await ensureStrace();
const scenario: Scenario | undefined = canTrace ? await makeServeScenario(SEED) : undefined;
afterAll(() => scenario?.run.remove());

/**
 * The kinds of files and folders that are synced. Nothing depends on two more: the marks, which keep others from copying the folder,
 * and the journal of SQLite, which a database has before it holds anything.
 */
const KINDS: readonly (readonly [string, RegExp])[] = [
  ['folders above the data folder', /^(?:volume(?:\/holdfast)?)?$/],
  ['the data folder', /^volume\/holdfast\/data$/],
  ['the rows', /\/holdfast\.db$/],
  ['the log of the rows', /\/holdfast\.db-wal$/],
  ['the registry', /\/registry\.db(?:-wal)?$/],
  ['the secret', /\/secret\.key/],
  ['the marker of the store', /\/STORE/],
  ['the content folder', /\/content$/],
  ['the folders of objects', /\/content\/objects(?:\/..)?$/],
  ['objects', /\/content\/incoming\//],
];

async function expectNothingLost(judged: Scenario, wanted: number): Promise<void> {
  const { images, found } = await judgeImages(judged, makeRandom(SEED), (done) => done < wanted);
  expect(found).toEqual([]);
  expect(images).toBe(wanted);
}

async function expectLossWithout(judged: Scenario, isLeftOut: (inode: Inode) => boolean): Promise<void> {
  const random = makeRandom(SEED);
  let tries = 0;
  for (let fault: string | undefined; fault === undefined && tries < TRIES_MAX; tries += 1) {
    const loss = LOSSES[tries % LOSSES.length] as Loss;
    fault = await judgeImage(judged, random, loss, { isSync: (inode) => !isLeftOut(inode), isKept: false });
  }
  expect(tries).toBeLessThan(TRIES_MAX);
}

test(
  'images of the disk of a server',
  async () => {
    if (scenario !== undefined) await expectNothingLost(scenario, IMAGES);
  },
  TEST_MS_MAX,
);

const SCENARIO_NAMES = new Map([
  [makeBackupScenario, 'backup'],
  [makeRestoreScenario, 'restore'],
  [makePullScenario, 'pull --fsync'],
]);

for (const [make, name] of SCENARIO_NAMES) {
  const kept = readFailures('power-loss').filter(({ again }) => again === name);
  // Seeds that a fault was found with have the same kills again.
  const seeds = kept.length === 0 ? [SEED] : kept.map(({ seed = SEED }) => seed);
  test.each(seeds)(
    `images of the disk of a command: ${name}, seed %i`,
    async (seed) => {
      if (!canTrace) return;
      const command = await make(seed);
      try {
        await expectNothingLost(command, IMAGES_OF_A_COMMAND);
        for (const kind of ['file', 'folder'])
          await expectLossWithout(command, (inode) => inode.kind === kind);
      } finally {
        command.run.remove();
      }
    },
    TEST_MS_MAX,
  );
}

for (const [kind, pattern] of KINDS) {
  test(
    `without the fsync of ${kind} something is lost`,
    async () => {
      if (scenario !== undefined) await expectLossWithout(scenario, ({ path }) => pattern.test(path));
    },
    TEST_MS_MAX,
  );
}

test('every fsync is of a kind that is left out once, or explained', () => {
  const isExplained = (path: string): boolean =>
    /\/(?:\.gitignore|\.holdfastignore|(?:holdfast|registry)\.db-journal)$/.test(path);
  const synced = new Set(
    (scenario?.run.disk.steps ?? []).flatMap((step) => (step.kind === 'sync' ? [step.inode.path] : [])),
  );
  const unknown = [...synced].filter(
    (path) => !isExplained(path) && !KINDS.some(([, pattern]) => pattern.test(path)),
  );
  expect(unknown).toEqual([]);
});
