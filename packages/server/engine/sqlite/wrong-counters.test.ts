/** The list of Spaces and the totals of Apps believe no counter that contradicts its sum. */
import { Database } from 'bun:sqlite';
import { expect, test } from 'bun:test';
import { databasePath, nextTurn } from '../../../../test/support/embedded-files.ts';
import { leaseNode } from '../../core/lease/lease-node.ts';
import { CoreWorld, MINUTE_MS, ORIGIN, SPACE, smallNode } from '../../core/test/core-fixture.ts';
import { readSqliteAppTotals } from './app-totals.ts';

const OTHER = { appId: SPACE.appId, spaceId: 'other' };
const COLUMNS = ['node_count', 'ready_content_bytes', 'ready_stored_bytes', 'waiting_bytes', 'leased_count'];

test.each(COLUMNS)('a wrong %s is the matter of its Space, and not of its App', async (column) => {
  const world = await CoreWorld.open();
  await world.publish(smallNode(1));
  await leaseNode(world.core, OTHER, smallNode(2).hash, MINUTE_MS, () => ORIGIN);
  const right = await world.core.metadata.readAppTotals(SPACE.appId);
  const change = (by: number): void => {
    using database = new Database(databasePath(world.dataDir));
    database.run(`UPDATE spaces SET ${column} = ${column} + ${by} WHERE space_id = '${SPACE.spaceId}'`);
  };
  await nextTurn();
  change(2 ** 40);
  await world.restart();
  const totals = await world.core.metadata.readAppTotals(SPACE.appId);
  expect(totals).toMatchObject({ spaces: 2, nodeCount: 0, readyContentBytes: 0, waitingBytes: 0 });
  expect(readSqliteAppTotals(world.dataDir, SPACE.appId)).toEqual(totals);
  const spaces = await world.core.metadata.page('spaces', { after: undefined, limit: 10 });
  expect(spaces.map(({ counters }) => counters?.nodeCount)).toEqual([undefined, 0]);
  await nextTurn();
  change(-(2 ** 40));
  await world.restart();
  expect(await world.core.metadata.readAppTotals(SPACE.appId)).toEqual(right);
});
