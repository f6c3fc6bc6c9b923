/** A database restored from a backup beside a bucket with newer objects: real PostgreSQL, real S3. */
import { afterAll, expect, test } from 'bun:test';
import { makeNode } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines, startCluster } from './support/cluster.ts';
import { copyDatabase } from './support/copy-database.ts';
import { APP, SPACE } from './support/running-server.ts';
import { listKeys } from './support/s3-request.ts';
import { runHoldfast, startServer, tryStartServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const engines = await openEngines();
const folder = makeTempFolder('restored');
afterAll(async () => {
  await engines.close();
  folder.remove();
});

test('a restored database is refused until an operator accepts it; then nothing is lost or goes back', async () => {
  const cluster = await startCluster(engines, { processes: 1 });
  const early = Array.from({ length: 5 }, (_, index) => makeNode(`early ${index}`));
  const late = Array.from({ length: 40 }, (_, index) => makeNode(`late ${index}`));
  const keep = (nodes: readonly { readonly hash: string }[]) =>
    Object.fromEntries(nodes.map(({ hash }) => [hash, 1]));
  const [server] = cluster.servers;
  for (const node of early) await cluster.client().store(node);
  await cluster.client().commit('early', keep(early));
  const cursor = (await cluster.client().roots('?limit=1')).json.nextCursor;
  await server?.terminate();
  const restoredUrl = await copyDatabase(engines.metadataUrl);
  await server?.start();
  for (const node of late) await cluster.client().store(node);
  const { revision } = (await cluster.client().commit('late', keep(late))).json;
  await server?.terminate();

  const contentUrl = formatContentUrl(engines.bucket);
  const environment = makeS3Environment(engines.bucket);
  const place = ['--metadata', restoredUrl, '--content', contentUrl];
  const options = { data: folder.path, arguments: place, environment };
  const refused = await tryStartServer(options);
  if ('url' in refused) throw new Error('a server took a database that is behind its bucket');
  expect(refused.exitCode).toBe(1);
  expect(refused.stderr).toContain('holdfast accept-restore');

  const checkConfig = () =>
    runHoldfast(['config', 'check', '--online', '--listen', '127.0.0.1:0', ...place], { environment });
  const behind = await checkConfig();
  expect(behind.exitCode).toBe(1);
  expect(behind.stdout + behind.stderr).toContain('holdfast accept-restore');

  const before = await listKeys(engines.bucket, 'nodes/');
  const accepted = await runHoldfast(['accept-restore', ...place, '--json'], { environment });
  expect([accepted.exitCode, accepted.stderr]).toEqual([0, '']);
  expect(JSON.parse(accepted.stdout)).toEqual({ wasBehind: true });
  expect(await checkConfig()).toMatchObject({ exitCode: 0, stderr: '' });
  const restored = await startServer(options);
  try {
    const client = makeSpaceClient(restored.url, APP, SPACE, cluster.issuer.token(SPACE));
    for (const { hash, content } of early) {
      expect(Buffer.from(await (await client.content(hash)).arrayBuffer())).toEqual(Buffer.from(content));
    }
    expect((await client.roots()).json.revision).toBeGreaterThan(revision);
    expect((await client.roots(`?cursor=${cursor}`)).status).toBe(400);
    expect((await client.commit('next', keep(early))).json.revision).toBe(
      (await client.roots()).json.revision,
    );
    expect((await client.gc()).json.deleted).toBe(0);
    expect(await listKeys(engines.bucket, 'nodes/')).toEqual(before);
  } finally {
    await restored.end('SIGTERM');
  }
  // Now the other database is the one that is behind.
  const outdated = await tryStartServer({
    ...options,
    arguments: ['--metadata', engines.metadataUrl, '--content', contentUrl],
  });
  expect('url' in outdated).toBe(false);
  await cluster.remove();
}, 300_000);
