// test-run: alone
/** The bucket never answers what one tenant asks of it: another tenant does not notice. */
import { afterEach, expect, test } from 'bun:test';
import { join } from 'node:path';
import { startAttack } from './support/attack.ts';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines } from './support/cluster.ts';
import { startHangingBucket } from './support/hanging-bucket.ts';
import { listKeys } from './support/s3-request.ts';
import { askHonestly, expectHonest, GREEDY, HONEST, startTenants } from './support/tenants.ts';
import { until } from './support/until.ts';

const HOUR_MS = 3_600_000;
/** Bytes of a node that become an object, and not a row. */
const OBJECT_BYTES = 40_000;
const CALLERS = 600;
const NODES = 10;
/** Waiting requests hold most of the places that one server has at the bucket, but not all. */
const HANGING_MIN = 64;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

test('600 callers whose reads hang in the bucket', async () => {
  const engines = await openEngines();
  closers.push(() => engines.close());
  const { metadataUrl, bucket } = engines;
  const proxy = await startHangingBucket(bucket.endpoint);
  closers.push(() => proxy.close());
  const tenants = await startTenants('tenants-bucket', {
    metadataUrl,
    arguments: ['--metadata', metadataUrl, '--content', formatContentUrl(bucket, proxy.endpoint)],
    environment: makeS3Environment(bucket),
  });
  closers.push(() => tenants.remove());
  const greedy = tenants.client(GREEDY);
  const nodes = Array.from({ length: NODES }, (_, index) => makeNode(seededBytes(OBJECT_BYTES, index)));
  for (const node of nodes) await greedy.store(node, HOUR_MS);
  const [key] = await listKeys(bucket, 'nodes/');
  const space = /^nodes\/[0-9a-f]{2}\/([0-9a-f]{32})\//.exec(key ?? '')?.[1] as string;
  const honest = tenants.client(HONEST);
  const node = makeNode(seededBytes(OBJECT_BYTES, 100));
  await honest.store(node, HOUR_MS);

  proxy.hang(`/${space}/`);
  const attack = startAttack(join(import.meta.dir, 'support', 'attack-with-reads.ts'), {
    urls: nodes.map(({ hash }) => `${greedy.spaceUrl}/cas/nodes/${hash}/content`),
    token: tenants.issuers[GREEDY].token('space'),
    callers: CALLERS,
  });
  closers.push(() => attack.stop());
  await attack.begun;
  await until(() => proxy.hanging >= HANGING_MIN);
  const report = await askHonestly(tenants.server, [
    async () => {
      const answer = await honest.content(node.hash);
      return (await answer.bytes()).length === OBJECT_BYTES ? 200 : answer.status;
    },
    async () => (await honest.lease(node.hash)).status,
    async (turn) => {
      const each = makeNode(seededBytes(OBJECT_BYTES, 1000 + turn));
      const { json } = await honest.lease(each.hash, HOUR_MS);
      await (await honest.put(json.upload, each.bytes)).arrayBuffer();
      return (await honest.lease(each.hash, HOUR_MS)).status;
    },
  ]);
  expectHonest(report);
  expect(proxy.hanging).toBeGreaterThanOrEqual(HANGING_MIN);
}, 300_000);
