/** Part of the schedules of `npm run proof`, the same in each run. */
import { afterAll, expect, test } from 'bun:test';
import { openPostgres } from '../../test/support/postgres-server.ts';
import { runSchedules, type SchedulesPlayed } from './run.ts';
import { openFolderWorld, openPostgresWorld, type ScheduleWorld } from './world.ts';

const SEED = 27;
/** of each operation in a scene */
const [SHALLOW, DEEP] = [4, 1];

const databases = await openPostgres();
afterAll(() => databases.close());

function play(schedules: number, open: () => Promise<ScheduleWorld>): Promise<SchedulesPlayed> {
  return runSchedules({
    ...{ seed: SEED, open, shallowMax: SHALLOW, deep: DEEP },
    isOver: (played) => played >= schedules,
  });
}

test.each([
  ['a data folder', 1_000, () => openFolderWorld(false)],
  ['rows in a folder, uploads to the store', 850, () => openFolderWorld(true)],
  ['PostgreSQL', 150, async () => openPostgresWorld(await databases.createDatabase())],
] as const)(
  'nothing that runs between two steps of another loses anything: %s',
  async (_name, schedules, open) => {
    const { schedules: played, preempted, found } = await play(schedules, open);
    expect(found).toEqual([]);
    expect(played).toBe(schedules);
    expect(preempted).toBeGreaterThan(schedules / 2);
  },
);
