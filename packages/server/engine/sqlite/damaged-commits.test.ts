import { Database } from 'bun:sqlite';
import { databasePath, nextTurn } from '../../../../test/support/embedded-files.ts';
import { CoreWorld } from '../../core/test/core-fixture.ts';
import { testDamagedCommits } from '../test/damaged-commits-suite.ts';
import { NOW } from '../test/samples.ts';

testDamagedCommits(async () => {
  const world = await CoreWorld.open();
  world.now = NOW;
  return {
    store: () => world.core.metadata,
    setClock: (now) => {
      world.now = now;
    },
    change: async (sql) => {
      await nextTurn();
      using database = new Database(databasePath(world.dataDir));
      database.run(sql);
    },
    close: () => world.close(),
  };
});
