/** The walk over all nodes ends if the table of nodes has a damaged page, wherever that is. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { closeSync, openSync, writeSync } from 'node:fs';
import { databasePath, nextTurn } from '../../../test/support/embedded-files.ts';
import { scrub } from '../core/collect/scrub.ts';
import { isDamage } from '../core/store-failure.ts';
import { CoreWorld, smallNode } from '../core/test/core-fixture.ts';
import type { ScrubPosition } from '../core/upkeep-ports.ts';
import { verifyNodes } from './verify-nodes.ts';

const NODES = 200;
/** Far more than the steps around one page. */
const STEPS_MAX = 200;

let world: CoreWorld;
beforeEach(async () => {
  world = await CoreWorld.open();
  await world.publish(...Array.from({ length: NODES }, (_, seed) => smallNode(seed)));
  await nextTurn();
});
afterEach(() => world.close());

const PLACES = {
  'the first': "pagetype = 'leaf' ORDER BY path",
  'the last': "pagetype = 'leaf' ORDER BY path DESC",
  'the root': "path = '/'",
};

/** Overwrites a page of the table of nodes. The returned function restores it, because the fixture recounts when it closes. */
async function damage(place: keyof typeof PLACES): Promise<() => Promise<void>> {
  const path = databasePath(world.dataDir);
  const database = new Database(path);
  database.run('PRAGMA wal_checkpoint(TRUNCATE)');
  const page = database
    .query<{ pageno: number; pgsize: number }, []>(
      `SELECT pageno, pgsize FROM dbstat WHERE name = 'nodes' AND ${PLACES[place]} LIMIT 1`,
    )
    .get();
  database.close();
  if (page === null) throw new Error('no such page');
  const { pageno, pgsize } = page;
  const offset = (pageno - 1) * pgsize;
  const lost = new Uint8Array(
    await Bun.file(path)
      .slice(offset, offset + pgsize)
      .arrayBuffer(),
  );
  const write = async (bytes: Uint8Array): Promise<void> => {
    await nextTurn();
    const file = openSync(path, 'r+');
    writeSync(file, bytes, 0, pgsize, offset);
    closeSync(file);
    await world.restart();
  };
  await write(new Uint8Array(pgsize).fill(0xff));
  return () => write(lost);
}

const PLACE_NAMES = Object.keys(PLACES) as (keyof typeof PLACES)[];

test.each(PLACE_NAMES)('with %s page damaged it says so, and lets timers run', async (place) => {
  const mend = await damage(place);
  const { metadata, content } = world.core;
  let turns = 0;
  const timer = setInterval(() => {
    turns += 1;
  }, 0);
  let calls = 0;
  const counted = new Proxy(metadata, {
    get(target, name) {
      const value = Reflect.get(target, name, target);
      if (name === 'page') calls += 1;
      if (calls > STEPS_MAX) throw new Error('it does not end');
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  const found = await verifyNodes({ metadata: counted, content, onProgress: () => undefined });
  clearInterval(timer);
  expect(found).toMatchObject({ hasUnreadableRows: true, damaged: [] });
  expect(found.nodes).toBeWithin(0, NODES);
  if (place === 'the root') expect(found.nodes).toBe(0);
  else expect(found.nodes).toBeGreaterThan(NODES / 2);
  expect(turns).toBeGreaterThan(0);
  await mend();
});

test.each(PLACE_NAMES)('with %s page damaged the scrub ends its walk, and begins again', async (place) => {
  const mend = await damage(place);
  const walk = async (): Promise<{ readonly failures: number; readonly nodes: number }> => {
    let [failures, nodes] = [0, 0];
    let after: ScrubPosition | undefined;
    for (let steps = 0; steps < STEPS_MAX; steps += 1) {
      try {
        const step = await scrub(world.core, after);
        nodes += step.nodes;
        after = step.next;
        if (after === undefined) return { failures, nodes };
      } catch (error) {
        expect(isDamage(error)).toBe(true);
        failures += 1;
      }
    }
    throw new Error('it does not end');
  };
  const first = await walk();
  expect(first.failures).toBeGreaterThan(0);
  expect(await walk()).toEqual(first);
  await mend();
  expect(await walk()).toEqual({ failures: 0, nodes: NODES });
});
