/** Rows that are restored to before a compaction, beside the bucket that it has changed: real PostgreSQL, real S3. */
import { afterAll, expect, test } from 'bun:test';
import { SQL } from 'bun';
import { makeBulkClient } from './support/bulk-client.ts';
import { makeNode } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines, startCluster } from './support/cluster.ts';
import { copyDatabase } from './support/copy-database.ts';
import { makePack, packed } from './support/planted-pack.ts';
import { APP, SPACE } from './support/running-server.ts';
import { listKeys } from './support/s3-request.ts';
import { runHoldfast, startServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

/** Only ends what hangs. */
const TEST_MS_MAX = 300_000;
const LIVE = 70;
const REJECTED = 200;
const HOUR_MS = 3_600_000;
const NOTHING = new Uint8Array(0);

const engines = await openEngines();
const folder = makeTempFolder('restored-packs');
const sql = new SQL(engines.metadataUrl, { max: 1 });
afterAll(async () => {
  await sql.close();
  await engines.close();
  folder.remove();
});

test(
  'rows of before a compaction read all nodes, and collection, sweep and check find nothing wrong',
  async () => {
    const cluster = await startCluster(engines, { processes: 1, keepReplaced: 'default' });
    const [server] = cluster.servers;
    const clientOf = (url: string) => makeSpaceClient(url, APP, SPACE, cluster.issuer.token(SPACE));
    const bulkOf = (url: string) => makeBulkClient(() => url, APP, SPACE, cluster.issuer.token(SPACE));
    await sql`INSERT INTO background_turns (name, holder, held_until, position)
      VALUES ('compact', 'the test', ${Number.MAX_SAFE_INTEGER}, NULL)
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until`;
    const live = Array.from({ length: LIVE }, (_, index) => makeNode(`live ${index}`));
    // A pack of which most is dead from the beginning, because its records do not have their digests.
    const wrong = Array.from({ length: REJECTED }, (_, index) =>
      packed({ ...makeNode(`wrong ${index}`), hash: makeNode(`never ${index}`).hash }),
    );
    const bulk = bulkOf(server?.process.url ?? '');
    const pack = await bulk.open(live.map(({ hash }) => hash));
    expect((await bulk.put(pack, makePack([...wrong, ...live.map(packed)]))).status).toBe(200);
    await bulk.lease(pack.id, HOUR_MS);
    await cluster.client().commit('keep', Object.fromEntries(live.map(({ hash }) => [hash, 1])));
    await server?.terminate();
    // No session may be left, or the database cannot be a template.
    await sql.close();
    const restoredUrl = await copyDatabase(engines.metadataUrl);
    const before = await listKeys(engines.bucket, 'nodes/');

    const later = new SQL(engines.metadataUrl, { max: 1 });
    await later`UPDATE background_turns SET held_until = 0 WHERE name = 'compact'`;
    await server?.start();
    await until(async () => {
      const [{ count }] =
        await later`SELECT count(*)::int AS count FROM packs WHERE live_records = 0 AND discarded`;
      const [{ due }] = await later`SELECT count(*)::int AS due FROM discards WHERE due_at <= ${Date.now()}`;
      return count === 1 && due === 0;
    });
    await later.close();
    await server?.terminate();
    expect(await listKeys(engines.bucket, 'nodes/')).toEqual(expect.arrayContaining(before));

    const place = ['--metadata', restoredUrl, '--content', formatContentUrl(engines.bucket)];
    const environment = makeS3Environment(engines.bucket);
    const accepted = await runHoldfast(['accept-restore', ...place], { environment });
    expect([accepted.exitCode, accepted.stderr]).toEqual([0, '']);
    const restored = await startServer({ data: folder.path, arguments: place, environment });
    try {
      expect((await clientOf(restored.url).gc()).json.deleted).toBe(0);
      const records = await bulkOf(restored.url).read(live.map(({ hash }) => hash));
      const found = new Map(records.map(({ hash, stored }) => [hash, stored]));
      expect(live.filter(({ hash, bytes }) => Buffer.compare(found.get(hash) ?? NOTHING, bytes))).toEqual([]);
      const checked = await runHoldfast(['check', '--rehash', 'all', ...place], { environment });
      expect([checked.exitCode, checked.stderr]).toEqual([0, '']);
    } finally {
      await restored.end('SIGTERM');
      await cluster.remove();
    }
  },
  TEST_MS_MAX,
);
