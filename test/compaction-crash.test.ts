/**
 * kill -9 of the real server at exact instants of a compaction: while the new pack is written, before and after it is durable, before
 * its row, between the groups that move, before the old pack becomes a discard, before and after its object is deleted. Behind each of
 * them every node reads, the rows recount, the next server finishes the work, and no object is left over.
 */
import { Database } from 'bun:sqlite';
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { type BulkClient, makeBulkClient } from './support/bulk-client.ts';
import { type CanonicalNode, makeNode } from './support/canonical-node.ts';
import { databasePath } from './support/embedded-files.ts';
import { findLeftovers, recount } from './support/embedded-recount.ts';
import { type Issuer, makeIssuer } from './support/issuer.ts';
import { makePack, packed } from './support/planted-pack.ts';
import { addApp, runHoldfast, type ServerProcess, startServer } from './support/server-process.ts';
import { makeSpaceClient, type SpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const APP = 'app';
const SPACE = 'space';
/** Two groups move them, the second one not full. */
const LIVE = 400;
const DEAD = 1000;
/** Servers that run at once: most of the time each waits for its background work to begin. */
const AT_ONCE = 4;
/** Only ends what hangs. */
const TEST_MS_MAX = 600_000;
const WAIT_MS_MAX = 240_000;
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
/** what no row names is noted from a day on, and goes a week later */
const STRAY_NOTED_AFTER_MS = DAY_MS + 60 * MINUTE_MS;
const STRAY_GONE_AFTER_MS = 8 * DAY_MS;
const KILL_POINT = join(import.meta.dir, 'support', 'kill-point.ts');
const SHIFTED_CLOCK = join(import.meta.dir, 'support', 'shifted-clock.ts');

/** What is there when the process dies. */
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

/** One data folder, and the server that runs on it. */
class Lane {
  readonly data: string;
  #offsetMs = 2 * MINUTE_MS;
  #server: ServerProcess | undefined;

  constructor(data: string) {
    this.data = data;
  }

  async start(killAt = '', laterMs = 0): Promise<ServerProcess> {
    this.#offsetMs += laterMs;
    this.#server = await startServer({
      data: this.data,
      environment: {
        BUN_OPTIONS: `--preload=${KILL_POINT} --preload=${SHIFTED_CLOCK}`,
        HOLDFAST_TEST_KILL_AT: killAt,
        HOLDFAST_TEST_CLOCK_OFFSET_MS: String(this.#offsetMs),
      },
    });
    return this.#server;
  }

  async stop(): Promise<void> {
    expect(await this.#server?.end('SIGTERM')).toBe(0);
  }

  async remove(): Promise<void> {
    if (this.#server?.isRunning() === true) await this.#server.end('SIGKILL');
  }

  get bulk(): BulkClient {
    return makeBulkClient(this.#url, APP, SPACE, this.#token());
  }

  get client(): SpaceClient {
    return makeSpaceClient(this.#url, APP, SPACE, this.#token(), false);
  }

  get #url(): string {
    return this.#server?.url ?? '';
  }

  #token(): string {
    const iat = Math.floor((Date.now() + this.#offsetMs) / 1000);
    return issuer.token(SPACE, { iat, exp: iat + 3600 });
  }

  look(): Wreck {
    const database = new Database(databasePath(this.data), { readonly: true });
    try {
      const row = database
        .query<{ count: number }, [Uint8Array]>(
          'SELECT count(*) AS count FROM contents WHERE pack IS NOT NULL AND pack <> ?',
        )
        .get(Buffer.from(oldPack, 'hex'));
      const { orphans } = findLeftovers(this.data);
      return { objects: orphans.length + countPacks(database), moved: row?.count ?? 0 };
    } finally {
      database.close();
    }
  }

  expectSound(): void {
    expect(recount(this.data).problems).toEqual([]);
    expect(findLeftovers(this.data).missing).toEqual([]);
  }

  async expectReadable(): Promise<void> {
    const records = await this.bulk.read(live.map(({ hash }) => hash));
    expect(records.map(({ hash }) => hash)).toEqual(live.map(({ hash }) => hash));
    const wrong = live.filter(({ bytes }, index) => Buffer.compare(bytes, records[index]?.stored ?? bytes));
    expect(wrong).toEqual([]);
    const [{ hash, content }] = leaves as [CanonicalNode];
    expect(Buffer.compare(await (await this.client.content(hash)).bytes(), content)).toBe(0);
  }
}

/** Packs whose object is there because their row says so. */
function countPacks(database: Database): number {
  const sql = 'SELECT count(*) AS count FROM packs WHERE is_discarded = 0';
  return database.query<{ count: number }, []>(sql).get()?.count ?? 0;
}

async function until(holds: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`after ${WAIT_MS_MAX} ms ${what} is not so`);
    await Bun.sleep(50);
  }
}

beforeAll(async () => {
  issuer = makeIssuer();
  await addApp(worn, APP, issuer);
  const server = await startServer({ data: worn });
  const client = makeSpaceClient(server.url, APP, SPACE, issuer.token(SPACE));
  const bulk = makeBulkClient(server.url, APP, SPACE, issuer.token(SPACE));
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
  const lane = new Lane(join(folder.path, String(index)));
  cpSync(worn, lane.data, { recursive: true });
  try {
    const server = await lane.start(at);
    expect((await lane.client.gc(10_000)).json.deleted).toBe(DEAD);
    expect([name, await server.ended()]).toEqual([name, 'SIGKILL']);
    expect([name, lane.look()]).toEqual([name, wreck]);
    lane.expectSound();
    await lane.start();
    await lane.expectReadable();
    await until(() => lane.look().moved === live.length, `${name}: everything has moved`);
    // What no row ever named stays for a week, and so does a pack that is more than half live.
    await until(() => lane.look().objects === rest, `${name}: the old object is gone`);
    await lane.expectReadable();
    if (index === 0) await outliveStrays(lane);
    const { exitCode, stdout } = await runHoldfast([
      'check',
      '--data',
      lane.data,
      '--rehash',
      'all',
      '--json',
    ]);
    expect([name, exitCode, JSON.parse(stdout)]).toMatchObject([name, 0, { ok: true, findings: [] }]);
    await lane.stop();
    lane.expectSound();
  } finally {
    await lane.remove();
  }
}

async function outliveStrays(lane: Lane): Promise<void> {
  await lane.stop();
  await lane.start('', STRAY_NOTED_AFTER_MS);
  await until(() => findLeftovers(lane.data).unburied.length === 0, 'the stray is noted');
  await lane.stop();
  await lane.start('', STRAY_GONE_AFTER_MS);
  await until(() => findLeftovers(lane.data).orphans.length === 0, 'the stray is gone');
  await lane.expectReadable();
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
