/**
 * kill -9 of the real server at exact instants of a compaction: while it writes the new pack, before and after the pack is
 * durable, before its row, between the groups that move, before the old pack becomes a discard, before and after its object is
 * deleted. After each kill every node reads, the rows recount, the next server finishes the work, and no object is left over.
 */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { makeBulkClient } from './support/bulk-client.ts';
import { makeNode } from './support/canonical-node.ts';
import { CRASH_APP, CRASH_SPACE, CrashLane, countPacks, until } from './support/crash-lane.ts';
import { databasePath } from './support/embedded-files.ts';
import { findLeftovers } from './support/embedded-recount.ts';
import { type Issuer, makeIssuer } from './support/issuer.ts';
import { makePack, packed } from './support/planted-pack.ts';
import { addApp, startServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';

/** Two groups move them, the second one not full. */
const LIVE = 400;
const DEAD = 1000;
/** Servers that run at once: most of the time each waits for its background work to begin. */
const AT_ONCE = 4;
/** Only ends what hangs. */
const TEST_MS_MAX = 600_000;
const MINUTE_MS = 60_000;

/** The state when the process dies. */
interface Wreck {
  /** files of packs */
  readonly objects: number;
  /** rows that name the new pack */
  readonly moved: number;
}

const NOTHING: Wreck = { objects: 1, moved: 0 };
const BOTH: Wreck = { objects: 2, moved: 0 };
const HALF: Wreck = { objects: 2, moved: 256 };
const MOVED: Wreck = { objects: 2, moved: LIVE + 2 };

/** `rest`: how many packs there are at last, the one that no row names included */
const KILL_POINTS: readonly (readonly [name: string, at: string, wreck: Wreck, rest: number])[] = [
  ['before the row of the new pack', 'sql:INSERT INTO packs:1', BOTH, 2],
  ['half of the new pack is written', 'write:incoming/:4', NOTHING, 1],
  ['before the new pack is durable', 'fsync:incoming/:1', NOTHING, 1],
  ['before the new pack has its name', 'link:incoming/:1', NOTHING, 1],
  ['before the name of the new pack is durable', 'fsync:objects/:1', BOTH, 1],
  ['before the staged name goes', 'unlink:incoming/:1', BOTH, 1],
  ['before the first record moves', 'sql:UPDATE contents SET pack:1', BOTH, 2],
  ['before the first group is committed', 'sql:UPDATE contents SET pack:256', BOTH, 2],
  ['behind the first group', 'sql:UPDATE contents SET pack:257', HALF, 2],
  ['in the second group', 'sql:UPDATE contents SET pack:300', HALF, 2],
  ['before the old pack becomes a discard', 'sql:INSERT INTO discards:1', MOVED, 1],
  ['before the old object is deleted', 'unlink:objects/:1', MOVED, 1],
  ['behind the deletion of the old object', 'sql:DELETE FROM discards:1', { ...MOVED, objects: 1 }, 1],
];

const leaves = Array.from({ length: LIVE }, (_, index) => makeNode(`live ${index}`));
const parents = [leaves.slice(0, LIVE / 2), leaves.slice(LIVE / 2)].map((children, index) =>
  makeNode(`parent ${index}`, { refs: children.map(({ hash }) => hash) }),
);
const live = [...parents, ...leaves];
const dead = Array.from({ length: DEAD }, (_, index) => makeNode(`dead ${index}`));

const folder = makeTempFolder('compaction-crash');
const worn = join(folder.path, 'worn');
let issuer: Issuer;
let oldPack: string;

function look(lane: CrashLane): Wreck {
  const { orphans } = findLeftovers(lane.data);
  return lane.ask((database) => {
    const row = database
      .query<{ count: number }, [Uint8Array]>(
        'SELECT count(*) AS count FROM contents WHERE pack IS NOT NULL AND pack <> ?',
      )
      .get(Buffer.from(oldPack, 'hex'));
    return { objects: orphans.length + countPacks(database), moved: row?.count ?? 0 };
  });
}

beforeAll(async () => {
  issuer = makeIssuer();
  await addApp(worn, CRASH_APP, issuer);
  const server = await startServer({ data: worn });
  const client = makeSpaceClient(server.url, CRASH_APP, CRASH_SPACE, issuer.token(CRASH_SPACE));
  const bulk = makeBulkClient(server.url, CRASH_APP, CRASH_SPACE, issuer.token(CRASH_SPACE));
  const all = [...live, ...dead];
  const pack = await bulk.open(all.map(({ hash }) => hash));
  expect((await bulk.put(pack, makePack(all.map(packed)))).status).toBe(200);
  expect((await bulk.lease(pack.id)).json.results).toHaveLength(all.length);
  const held = Object.fromEntries(parents.map(({ hash }) => [hash, 1]));
  expect((await client.commit('keep', held)).status).toBe(200);
  expect(await server.end('SIGTERM')).toBe(0);
  const database = new Database(databasePath(worn), { readonly: true });
  const row = database.query<{ generation: Uint8Array }, []>('SELECT generation FROM packs').get();
  oldPack = Buffer.from(row?.generation ?? []).toString('hex');
  database.close();
}, 300_000);
afterAll(() => folder.remove());

async function strike(index: number): Promise<void> {
  const [name, at, wreck, rest] = KILL_POINTS[index] as (typeof KILL_POINTS)[number];
  const lane = new CrashLane(join(folder.path, String(index)), issuer, 2 * MINUTE_MS);
  cpSync(worn, lane.data, { recursive: true });
  try {
    const server = await lane.start(at);
    expect((await lane.client.gc(10_000)).json.deleted).toBe(DEAD);
    expect([name, await server.ended()]).toEqual([name, 'SIGKILL']);
    expect([name, look(lane)]).toEqual([name, wreck]);
    lane.expectSound();
    await lane.start();
    await lane.expectReadable(live);
    await until(() => look(lane).moved === live.length, `${name}: everything has moved`);
    // An object that no row ever named stays for a week, and so does a pack that is more than half live.
    await until(() => look(lane).objects === rest, `${name}: the old object is gone`);
    if (index === 0) await lane.outliveStrays();
    await lane.expectReadable(live);
    await lane.expectChecked(name);
    await lane.stop();
    lane.expectSound();
  } finally {
    await lane.remove();
  }
}

test(
  `${KILL_POINTS.length} kills during compaction lose, double and leave nothing`,
  async () => {
    const left = KILL_POINTS.keys();
    const strikeAll = async (): Promise<void> => {
      for (const index of left) await strike(index);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, strikeAll));
  },
  TEST_MS_MAX,
);
