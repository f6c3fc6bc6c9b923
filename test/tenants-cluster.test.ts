// test-run: alone
/** On PostgreSQL and S3: 400 callers of one Space meet at one row, and another tenant does not notice. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import { startAttack } from './support/attack.ts';
import { makeNode } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, type OpenEngines, openEngines } from './support/cluster.ts';
import { askHonestly, expectHonest, GREEDY, HONEST, startTenants, type Tenants } from './support/tenants.ts';

const CALLERS = 400;

let engines: OpenEngines;
let tenants: Tenants;
beforeAll(async () => {
  engines = await openEngines();
  const { metadataUrl, bucket } = engines;
  tenants = await startTenants('tenants-cluster', {
    metadataUrl,
    arguments: ['--metadata', metadataUrl, '--content', formatContentUrl(bucket)],
    environment: makeS3Environment(bucket),
  });
}, 300_000);
afterAll(async () => {
  await tenants.remove();
  await engines.close();
});

test('400 callers of one Space who store parents of one child', async () => {
  const child = makeNode('shared child');
  await tenants.client(GREEDY).store(child, 3_600_000);
  const honest = tenants.client(HONEST);
  const node = makeNode('honest');
  await honest.store(node, 3_600_000);
  const attack = startAttack(join(import.meta.dir, 'support', 'attack-with-parents.ts'), {
    url: tenants.server.url,
    appId: GREEDY,
    token: tenants.issuers[GREEDY].token('space'),
    child: child.hash,
    callers: CALLERS,
  });
  try {
    await attack.begun;
    const report = await askHonestly(tenants.server, [
      async () => (await honest.metadata(node.hash)).status,
      async () => (await honest.lease(node.hash)).status,
      async () => (await honest.content(node.hash)).status,
    ]);
    expectHonest(report);
    expect(attack.lines().length).toBeGreaterThan(0);
  } finally {
    await attack.stop();
  }
}, 300_000);
