/**
 * Two real servers compact at once over PostgreSQL and one bucket. A lock of the test holds both at the same records, so that
 * each has written them into a pack of its own. The test kills one server between two groups, and purges a Space while its
 * records move.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { type BulkClient, makeBulkClient } from './support/bulk-client.ts';
import { type CanonicalNode, makeNode } from './support/canonical-node.ts';
import {
  type Cluster,
  formatContentUrl,
  makeS3Environment,
  openEngines,
  startCluster,
} from './support/cluster.ts';
import { makePack, packed } from './support/planted-pack.ts';
import { APP } from './support/running-server.ts';
import { listKeys } from './support/s3-request.ts';
import { findBucketLeftovers, recountScaleout } from './support/scaleout-recount.ts';
import { runHoldfast } from './support/server-process.ts';
import { until } from './support/until.ts';

/** Only ends what hangs. */
const TEST_MS_MAX = 600_000;
/** Two groups move them: the second begins behind 256. */
const LIVE = 300;
const REJECTED = 600;
const LOOK_MS = 20;
const BROKEN_COUNT = 'contradicts its rows';
const NOTHING = new Uint8Array(0);

const engines = await openEngines();
const sql = new SQL(engines.metadataUrl, { max: 2 });
let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster(engines, { processes: 2 });
}, 300_000);
afterAll(async () => {
  await cluster.remove();
  await sql.close();
  await engines.close();
});

function bulkOf(index: number, space: string): BulkClient {
  const { servers, issuer } = cluster;
  return makeBulkClient(() => servers[index]?.process.url ?? '', APP, space, issuer.token(space));
}

/** A pack of which most is dead from the beginning, because its records do not have their digests. */
async function sendWornPack(space: string): Promise<CanonicalNode[]> {
  const live = Array.from({ length: LIVE }, (_, index) => makeNode(`${space} ${index}`));
  const wrong = Array.from({ length: REJECTED }, (_, index) => {
    const { hash } = makeNode(`${space} never ${index}`);
    return packed({ ...makeNode(`${space} wrong ${index}`), hash });
  });
  const bulk = bulkOf(0, space);
  const pack = await bulk.open(live.map(({ hash }) => hash));
  expect((await bulk.put(pack, makePack([...wrong, ...live.map(packed)]))).status).toBe(200);
  const { json } = await bulk.lease(pack.id, 3_600_000);
  expect(json.results.filter(({ state }: { state: string }) => state === 'ready')).toHaveLength(LIVE);
  return live;
}

async function expectReadable(space: string, nodes: readonly CanonicalNode[]): Promise<void> {
  for (const index of cluster.servers.keys()) {
    const records = await bulkOf(index, space).read(nodes.map(({ hash }) => hash));
    const found = new Map(records.map(({ hash, stored }) => [hash, stored]));
    expect(nodes.filter(({ hash, bytes }) => Buffer.compare(found.get(hash) ?? NOTHING, bytes))).toEqual([]);
  }
}

/** No server begins to compact until `giveTurnsToAll`. */
async function takeTurnFromAll(): Promise<void> {
  await sql`INSERT INTO background_turns (name, holder, held_until, position) VALUES ('compact', 'the test', ${Number.MAX_SAFE_INTEGER}, NULL)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until`;
}

/** Both servers may have the turn at any time. */
function giveTurnsToAll(): { stop(): Promise<void> } {
  let isOver = false;
  const giving = (async () => {
    while (!isOver) {
      await sql`UPDATE background_turns SET held_until = 0 WHERE name = 'compact'`;
      await Bun.sleep(LOOK_MS);
    }
  })();
  return {
    stop() {
      isOver = true;
      return giving;
    },
  };
}

/** No transaction moves or takes the record at `place`, counted from 0, of the only pack of `space` until `release`. */
async function holdRecord(space: string, place: number): Promise<{ release(): Promise<void> }> {
  const pack = await readPack(space);
  const client = new SQL(engines.metadataUrl, { max: 1 });
  const isHeld = Promise.withResolvers<void>();
  const isOver = Promise.withResolvers<void>();
  const holding = client.begin(async (tx) => {
    const rows = await tx`SELECT 1 FROM contents WHERE pack = ${pack} AND pack_offset = (
      SELECT pack_offset FROM contents WHERE pack = ${pack} ORDER BY pack_offset OFFSET ${place} LIMIT 1) FOR UPDATE`;
    expect(rows).toHaveLength(1);
    isHeld.resolve();
    await isOver.promise;
  });
  await Promise.race([isHeld.promise, holding]);
  return {
    async release() {
      isOver.resolve();
      await holding;
      await client.close();
    },
  };
}

async function readPack(space: string): Promise<Uint8Array> {
  const packs = await sql`SELECT generation FROM packs JOIN spaces USING (space) WHERE space_id = ${space}`;
  expect(packs).toHaveLength(1);
  return packs[0].generation;
}

/** Sessions whose statement, which has `text` in it, waits for a lock. */
async function countWaiting(text: string): Promise<number> {
  const [{ count }] = await sql`SELECT count(*)::int AS count FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND position(${text} IN query) > 0`;
  return count;
}
const countMoving = () => countWaiting('UPDATE contents SET pack');
const countTaking = () => countWaiting('DELETE FROM contents');

async function expectCompacted(): Promise<void> {
  await until(async () => {
    const [{ count }] = await sql`SELECT count(*)::int AS count FROM packs WHERE dead_bytes * 2 > bytes`;
    return count === 0;
  });
}

/** A transaction that would break a count is undone and said, so that the rows stay right. */
function expectCountsWhole(): void {
  for (const { process } of cluster.servers) expect(process.log()).not.toContain(BROKEN_COUNT);
}

/** Rows and counts agree, no row lacks its object, and packs into which nothing moved lose theirs. */
async function expectTidy(): Promise<void> {
  const counted = await recountScaleout(engines.metadataUrl);
  expect(counted.problems).toEqual([]);
  expect((await findBucketLeftovers(counted, engines.bucket)).missing).toEqual([]);
  await until(async () => {
    const empty = await sql`SELECT encode(generation, 'hex') AS generation FROM packs WHERE live_records = 0`;
    const keys = await listKeys(engines.bucket, 'nodes/');
    return !empty.some(({ generation }: { generation: string }) =>
      keys.some((key) => key.endsWith(generation)),
    );
  });
}

function operate(...args: readonly string[]) {
  return runHoldfast([...args, '--metadata', engines.metadataUrl], {
    environment: makeS3Environment(engines.bucket),
  });
}

test(
  'two servers that compact the same pack at once move each record once, also if one is killed meanwhile',
  async () => {
    await takeTurnFromAll();
    const nodes = await sendWornPack('one');
    const old = await readPack('one');
    const first = await holdRecord('one', 0);
    const last = await holdRecord('one', LIVE - 1);
    const turns = giveTurnsToAll();
    try {
      await until(async () => (await countMoving()) === 2);
      await first.release();
      // Both are past the first group.
      await until(async () => {
        const moved = await sql`SELECT DISTINCT pack FROM contents WHERE pack <> ${old}`;
        return moved.length === 1 && (await countMoving()) === 2;
      });
      // The second one has moved nothing, and has not tried to: the counts of the old pack would refuse a record that leaves it twice.
      expectCountsWhole();
      await cluster.servers[0]?.kill();
      await last.release();
      await until(async () => (await sql`SELECT 1 FROM contents WHERE pack = ${old} LIMIT 1`).length === 0);
      await expectCompacted();
    } finally {
      await turns.stop();
    }
    await cluster.servers[0]?.start();
    await expectReadable('one', nodes);
    await expectTidy();
  },
  TEST_MS_MAX,
);

test(
  'a Space that is purged while two servers compact it is gone with all its objects, and others stay whole',
  async () => {
    await takeTurnFromAll();
    await Promise.all(cluster.servers.map((server) => server.terminate()));
    await Promise.all(cluster.servers.map((server) => server.start()));
    const kept = await sendWornPack('kept');
    await sendWornPack('purged');
    const purge = () =>
      operate(
        ...['space', 'purge', APP, 'purged', '--confirm', 'purged', '--json'],
        ...['--content', formatContentUrl(engines.bucket)],
      );
    expect((await operate('app', 'suspend', APP)).exitCode).toBe(0);
    const last = await holdRecord('purged', LIVE - 1);
    const turns = giveTurnsToAll();
    try {
      await until(async () => (await countMoving()) === 2);
      // It is refused as long as a server might still serve the App, and while it waits for a record that is held.
      const purged = until(async () => {
        const { exitCode, stderr } = await purge();
        // It counts records where they are by now, not where they were when it began to wait.
        expect(stderr).not.toContain(BROKEN_COUNT);
        return exitCode === 0;
      });
      await until(async () => (await countTaking()) > 0);
      await last.release();
      await purged;
      await expectCompacted();
      expectCountsWhole();
    } finally {
      await turns.stop();
    }
    const [{ left }] = await sql`SELECT count(*)::int AS left FROM contents JOIN spaces USING (space)
      WHERE space_id = 'purged'`;
    expect(left).toBe(0);
    expect((await operate('app', 'resume', APP)).exitCode).toBe(0);
    for (const { index } of cluster.servers) {
      const client = cluster.clientOf(index, 'purged');
      await until(async () => (await client.request('GET', '/cas/usage')).status === 200);
    }
    expect(await cluster.clientOf(0, 'purged').usage()).toMatchObject({ nodeCount: 0, readyStoredBytes: 0 });
    await expectReadable('kept', kept);
    await expectTidy();
  },
  TEST_MS_MAX,
);
