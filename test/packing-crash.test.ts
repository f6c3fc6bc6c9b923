/**
 * kill -9 of the real server at exact instants while small nodes that have a file each go into a pack: while it writes the
 * pack, before and after the pack is durable, before its row, between the groups that move, before the old files go and while
 * they go. After each kill every node reads, the rows recount, the next server finishes the work, and no file is left over.
 */
import type { Database } from 'bun:sqlite';
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode } from './support/canonical-node.ts';
import { CRASH_APP, CRASH_SPACE, CrashLane, countPacks, until } from './support/crash-lane.ts';
import { findLeftovers } from './support/embedded-recount.ts';
import { type Issuer, makeIssuer } from './support/issuer.ts';
import { addApp, startServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';

/** Two groups move them, the second one not full. */
const NODES = 330;
/** A row holds less: each of them is a file. */
const CONTENT_BYTES = 33_000;
const PUBLISHED_AT_ONCE = 8;
const LEASE_MS = 60_000;
/** Servers that run at once: most of the time each waits for its background work to begin. */
const AT_ONCE = 4;
/** Only ends what hangs. */
const TEST_MS_MAX = 600_000;
/** A node is packed a day after its upload began. */
const OLD_ENOUGH_MS = 86_400_000 + 60_000;

/** The state when the process dies. */
interface Wreck {
  /** files that no row names, not even to delete them */
  readonly strays: number;
  readonly packs: number;
  readonly moved: number;
}

const NOTHING: Wreck = { strays: 0, packs: 0, moved: 0 };
const STRAY: Wreck = { ...NOTHING, strays: 1 };
const HALF: Wreck = { strays: 0, packs: 1, moved: 256 };
const MOVED: Wreck = { ...HALF, moved: NODES };

const KILL_POINTS: readonly (readonly [name: string, at: string, wreck: Wreck])[] = [
  ['before the row of the pack', 'sql:INSERT INTO packs:1', STRAY],
  ['while the pack is written', 'write:incoming/:1', NOTHING],
  ['before the pack is durable', 'fsync:incoming/:1', NOTHING],
  ['before the pack has its name', 'link:incoming/:1', NOTHING],
  ['before the name of the pack is durable', 'fsync:objects/:1', STRAY],
  ['before the first node moves', 'sql:UPDATE nodes SET state:1', STRAY],
  ['before the first group is committed', 'sql:INSERT INTO discards:256', STRAY],
  ['behind the first group', 'sql:INSERT INTO contents:257', HALF],
  ['in the second group', 'sql:INSERT INTO discards:280', HALF],
  ['before the first old file is deleted', 'unlink:objects/:1', MOVED],
  ['while old files are deleted', 'unlink:objects/:100', MOVED],
  ['before their discards go', 'sql:DELETE FROM discards:1', MOVED],
];

const contentOf = (name: string): string => `${name} `.padEnd(CONTENT_BYTES, 'small ');
const leaves = Array.from({ length: NODES - 2 }, (_, index) => makeNode(contentOf(`${index}`)));
const parents = [leaves.slice(0, NODES / 2), leaves.slice(NODES / 2)].map((children, index) =>
  makeNode(contentOf(`parent ${index}`), { refs: children.map(({ hash }) => hash) }),
);
const nodes = [...leaves, ...parents];

const folder = makeTempFolder('packing-crash');
const full = join(folder.path, 'full');
let issuer: Issuer;

function look(lane: CrashLane): Wreck {
  const { orphans } = findLeftovers(lane.data);
  return lane.ask((database) => {
    const sql = 'SELECT count(*) AS count FROM contents WHERE pack IS NOT NULL';
    const moved = database.query<{ count: number }, []>(sql).get()?.count ?? 0;
    const discards = new Set(readDiscards(database));
    const strays = orphans.filter((generation) => !discards.has(generation)).length;
    return { strays, packs: countPacks(database), moved };
  });
}

/** Old files that are to be deleted. */
const readDiscards = (database: Database): string[] =>
  database
    .query<{ generation: Uint8Array }, []>('SELECT generation FROM discards')
    .all()
    .map(({ generation }) => Buffer.from(generation).toString('hex'));

beforeAll(async () => {
  issuer = makeIssuer();
  await addApp(full, CRASH_APP, issuer);
  const server = await startServer({ data: full });
  const client = makeSpaceClient(server.url, CRASH_APP, CRASH_SPACE, issuer.token(CRASH_SPACE));
  const left = leaves.values();
  const publishSome = async (): Promise<void> => {
    for (const node of left) await client.store(node, LEASE_MS);
  };
  await Promise.all(Array.from({ length: PUBLISHED_AT_ONCE }, publishSome));
  for (const parent of parents) await client.store(parent, LEASE_MS);
  const held = Object.fromEntries(parents.map(({ hash }) => [hash, 1]));
  expect((await client.commit('keep', held)).status).toBe(200);
  expect(await server.end('SIGTERM')).toBe(0);
}, 300_000);
afterAll(() => folder.remove());

async function strike(index: number): Promise<void> {
  const [name, at, wreck] = KILL_POINTS[index] as (typeof KILL_POINTS)[number];
  const lane = new CrashLane(join(folder.path, String(index)), issuer, OLD_ENOUGH_MS);
  cpSync(full, lane.data, { recursive: true });
  try {
    const server = await lane.start(at);
    expect([name, await server.ended()]).toEqual([name, 'SIGKILL']);
    expect([name, look(lane)]).toEqual([name, wreck]);
    lane.expectSound();
    await lane.start();
    await lane.expectReadable(nodes);
    await until(() => look(lane).moved === NODES, `${name}: all are packed`);
    await until(() => lane.ask(readDiscards).length === 0, `${name}: the old files are gone`);
    if (index === 0) await lane.outliveStrays();
    await lane.expectReadable(nodes);
    await lane.expectChecked(name);
    await lane.stop();
    lane.expectSound();
  } finally {
    await lane.remove();
  }
}

test(
  `${KILL_POINTS.length} kills while small nodes are packed lose, double and leave nothing`,
  async () => {
    const left = KILL_POINTS.keys();
    const strikeAll = async (): Promise<void> => {
      for (const index of left) await strike(index);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, strikeAll));
  },
  TEST_MS_MAX,
);
