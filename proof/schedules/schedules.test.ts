/** Part of the schedules of `npm run proof`, the same in each run. */
import { afterAll, expect, test } from 'bun:test';
import { openPostgres } from '../../test/support/postgres-server.ts';
import { Schedules } from './run.ts';
import { openFolderWorld, openPostgresWorld } from './world.ts';

const SEED = 27;
/** of each operation in a scene */
const [SHALLOW, DEEP] = [4, 1];

const databases = await openPostgres();
afterAll(() => databases.close());

test.each([
  ['a data folder', 1_000, () => openFolderWorld(false)],
  ['rows in a folder, uploads to the store', 850, () => openFolderWorld(true)],
  ['PostgreSQL', 150, async () => openPostgresWorld(await databases.createDatabase())],
] as const)(
  'nothing that runs between two steps of another loses anything: %s',
  async (_name, schedules, open) => {
    const isOver = (played: number): boolean => played >= schedules;
    const walk = new Schedules({ seed: SEED, open, shallowMax: SHALLOW, deep: DEEP, isOver });
    while (await walk.playNext());
    await walk.close();
    expect(walk.found).toEqual([]);
    expect(walk.schedules).toBe(schedules);
    expect(walk.preempted).toBeGreaterThan(schedules / 2);
  },
);
