// test-run: alone
/** One tenant commits 1,000 deltas at a time, without a pause: another tenant does not notice. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import { startAttack } from './support/attack.ts';
import { makeNode } from './support/canonical-node.ts';
import { askHonestly, expectHonest, GREEDY, HONEST, startTenants, type Tenants } from './support/tenants.ts';

const DELTAS = 1000;
const CONNECTIONS = 32;
const STORING_AT_ONCE = 32;

let tenants: Tenants;
beforeAll(async () => {
  tenants = await startTenants('tenants-commits');
}, 300_000);
afterAll(() => tenants.remove());

test('back-to-back commits of 1,000 deltas on 32 connections', async () => {
  const greedy = tenants.client(GREEDY);
  const nodes = Array.from({ length: DELTAS }, (_, index) => makeNode(`greedy ${index}`));
  for (let at = 0; at < DELTAS; at += STORING_AT_ONCE) {
    await Promise.all(nodes.slice(at, at + STORING_AT_ONCE).map((node) => greedy.store(node, 3_600_000)));
  }
  const honest = tenants.client(HONEST);
  const node = makeNode('honest');
  await honest.store(node, 3_600_000);
  const attack = startAttack(join(import.meta.dir, 'support', 'attack-with-commits.ts'), {
    rootRefsUrl: `${greedy.spaceUrl}/root-refs`,
    token: tenants.issuers[GREEDY].token('space'),
    hashes: nodes.map(({ hash }) => hash),
    connections: CONNECTIONS,
  });
  try {
    await attack.begun;
    const report = await askHonestly(tenants.server, [
      async () => (await honest.lease(node.hash)).status,
      async (turn) => (await honest.commit(`honest-${turn}`, { [node.hash]: 1 })).status,
      async () => (await honest.metadata(node.hash)).status,
    ]);
    expectHonest(report);
    // The greedy tenant is served too.
    expect(JSON.parse(attack.lines().at(-1) ?? '{}')['200']).toBeGreaterThan(0);
  } finally {
    await attack.stop();
  }
}, 300_000);
