/** Part of the schedules of `npm run proof`, the same in each run. */
import { afterAll, expect, test } from 'bun:test';
import { openPostgres } from '../../test/support/postgres-server.ts';
import { readFailures } from '../failures.ts';
import { parseSchedule, playSchedule } from './play-schedule.ts';
import { Schedules } from './run.ts';
import { openFolderWorld, openPostgresWorld } from './world.ts';

const SEED = 27;
/** of each operation in a scene */
const [SHALLOW, DEEP] = [4, 1];

const databases = await openPostgres();
afterAll(() => databases.close());

const PLACES = {
  'a data folder': () => openFolderWorld(false),
  'rows in a folder, uploads to the store': () => openFolderWorld(true),
  PostgreSQL: async () => openPostgresWorld(await databases.createDatabase()),
} as const;

test.each(Object.entries(PLACES))('what once was lost is kept: %s', async (place, open) => {
  const world = await open();
  try {
    for (const { again } of readFailures('schedules')) {
      const [where, text = ''] = again.split(': [');
      if (where !== place) continue;
      const schedule = parseSchedule(`[${text}`);
      const { wrong, preempted } = await playSchedule(world, schedule);
      expect([again, preempted, wrong]).toEqual([again, schedule.preemptions.length, []]);
    }
  } finally {
    await world.close();
  }
});

test.each([
  ['a data folder', 600],
  ['rows in a folder, uploads to the store', 1_250],
  ['PostgreSQL', 150],
] as const)('nothing that runs between two steps of another loses anything: %s', async (place, schedules) => {
  const isOver = (played: number): boolean => played >= schedules;
  const walk = new Schedules({ seed: SEED, open: PLACES[place], shallowMax: SHALLOW, deep: DEEP, isOver });
  while (await walk.playNext());
  await walk.close();
  expect(walk.found).toEqual([]);
  expect(walk.schedules).toBe(schedules);
  expect(walk.preempted).toBeGreaterThan(schedules / 2);
});
