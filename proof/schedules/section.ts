/** The section: a data folder, one with uploads to the store, and PostgreSQL, in turn. */
import { openPostgres } from '../../test/support/postgres-server.ts';
import type { SectionResult, SectionWork } from '../section.ts';
import { Schedules } from './run.ts';
import { openFolderWorld, openPostgresWorld } from './world.ts';

/** of depth 2 and 3, for each operation in a scene; with all of depth 1 in folders, a run to its end plays 200,000 */
const DEEP = 40;
/** The price of a schedule on PostgreSQL is several times that of one in a folder. */
const [POSTGRES_SHALLOW, POSTGRES_DEEP] = [10, 10];

export async function schedulesSection({ seed, isOver }: SectionWork): Promise<SectionResult> {
  const databases = await openPostgres();
  const wanted = { seed, deep: DEEP, isOver };
  const walks = [
    new Schedules({ ...wanted, open: () => openFolderWorld(false) }),
    new Schedules({ ...wanted, open: () => openFolderWorld(true) }),
    new Schedules({
      ...{ ...wanted, shallowMax: POSTGRES_SHALLOW, deep: POSTGRES_DEEP },
      open: async () => openPostgresWorld(await databases.createDatabase()),
    }),
  ];
  try {
    let goOn = true;
    while (goOn) {
      goOn = false;
      for (const walk of walks) goOn = (await walk.playNext()) || goOn;
    }
    for (const walk of walks) await walk.close();
  } finally {
    await databases.close();
  }
  const [folder = 0, direct = 0, postgres = 0] = walks.map(({ schedules }) => schedules);
  return {
    counts: {
      ...{ schedules: folder + direct + postgres, 'on PostgreSQL': postgres },
      'operations in scenes': Math.min(...walks.map(({ pairs }) => pairs)),
    },
    found: walks.flatMap(({ found }) => found),
  };
}
