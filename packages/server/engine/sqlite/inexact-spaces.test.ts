/** A number of a Space with a wrong high bit is no exact number any more: walks from Space to Space end all the same. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { databasePath, nextTurn } from '../../../../test/support/embedded-files.ts';
import { runGc } from '../../core/collect/run-gc.ts';
import { sweep } from '../../core/collect/sweep.ts';
import { packSmallNodes } from '../../core/packs/pack-small-nodes.ts';
import { CoreWorld, SPACE, smallNode } from '../../core/test/core-fixture.ts';

const WRONG_BIT = 2n ** 62n;

test.each(['contents', 'nodes', 'discards'])(
  'a wrong bit in the Space of a row of %s holds up no walk',
  async (table) => {
    const world = await CoreWorld.open();
    await world.publish(smallNode(1), smallNode(2));
    await nextTurn();
    using database = new Database(databasePath(world.dataDir), { safeIntegers: true });
    if (table === 'nodes')
      database.run('UPDATE nodes SET state = 2 WHERE hash = (SELECT max(hash) FROM nodes)');
    if (table === 'discards')
      database.run('INSERT INTO discards (generation, space) SELECT zeroblob(16), id FROM spaces');
    database.query(`UPDATE ${table} SET space = space + ?1`).run(WRONG_BIT);
    await world.restart();
    for (let round = 0; round < 2; round += 1) {
      await sweep(world.core).catch((error) => expect(error).toMatchObject({ isDamage: true }));
      await packSmallNodes(world.core).catch((error) => expect(error).toMatchObject({ isDamage: true }));
      await runGc(world.core, SPACE, 10).catch((error) => expect(error).toMatchObject({ status: 503 }));
      expect(await world.core.metadata.page('rottenSpaces', { after: undefined, limit: 10 })).toEqual([]);
    }
    await nextTurn();
    database.query(`UPDATE ${table} SET space = space - ?1`).run(WRONG_BIT);
    if (table === 'nodes') database.run('UPDATE nodes SET state = 1 WHERE state = 2');
    if (table === 'discards') database.run('DELETE FROM discards');
    await world.restart();
    expect((await world.row(smallNode(1)))?.state).toBe('ready');
  },
);
