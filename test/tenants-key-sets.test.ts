// test-run: alone
/**
 * One tenant's key set hangs, or unpacks to gigabytes, and anybody can make the server fetch it: another tenant does not
 * notice.
 */
import { afterEach, expect, test } from 'bun:test';
import { join } from 'node:path';
import { type Attack, startAttack } from './support/attack.ts';
import { makeNode } from './support/canonical-node.ts';
import type { Issuer } from './support/issuer.ts';
import { startBombServer } from './support/packed-bomb.ts';
import { runHoldfast } from './support/server-process.ts';
import { askHonestly, expectHonest, GREEDY, HONEST, startTenants, type Tenants } from './support/tenants.ts';

const CONNECTIONS = 4_100;
const FEW_CONNECTIONS = 64;
const BOMB_BYTES = 4 * 1024 ** 3;
/** Log lines: one for each kind of failure every ten seconds. */
const LOG_LINES_MAX = 40;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** The greedy App's keys are behind `jwksUrl`. */
async function startWith(jwksUrl: string): Promise<Tenants> {
  const tenants = await startTenants('tenants-key-sets', {
    addGreedy: async (data: string, { issuer, audience }: Issuer) => {
      const { exitCode, stderr } = await runHoldfast([
        ...['app', 'add', GREEDY, '--issuer', issuer, '--audience', audience],
        ...['--jwks-url', jwksUrl, '--data', data],
      ]);
      expect([exitCode, stderr]).toEqual([0, '']);
    },
  });
  closers.push(() => tenants.remove());
  return tenants;
}

/** The token has the right form, and its signature is garbage. */
function floodUnsigned({ server, issuers }: Tenants, connections: number): Attack {
  const [header, claims] = issuers[GREEDY].token('space').split('.');
  const attack = startAttack(join(import.meta.dir, 'support', 'attack-with-unsigned.ts'), {
    hostname: '127.0.0.1',
    port: server.port,
    path: `/v1/apps/${GREEDY}/spaces/space/cas/usage`,
    token: `${header}.${claims}.${'A'.repeat(86)}`,
    connections,
  });
  closers.push(() => attack.stop());
  return attack;
}

async function expectHonestThrough(tenants: Tenants, attack: Attack): Promise<void> {
  const honest = tenants.client(HONEST);
  const node = makeNode('honest');
  await honest.store(node, 3_600_000);
  await attack.begun;
  const report = await askHonestly(tenants.server, [
    async () => (await honest.lease(node.hash)).status,
    async (turn) => (await honest.commit(`honest-${turn}`, { [node.hash]: 1 })).status,
    async () => (await honest.metadata(node.hash)).status,
    async (turn) => (await tenants.client(HONEST, `s${turn}`).request('GET', '/cas/usage')).status,
  ]);
  expectHonest(report);
  expect(tenants.server.log().split('\n').length).toBeLessThan(LOG_LINES_MAX);
}

test('4,100 unsigned requests for a key set that hangs', async () => {
  const hanging = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    fetch: () => new Promise(() => undefined),
  });
  closers.push(() => hanging.stop(true));
  const tenants = await startWith(`${hanging.url.origin}/jwks.json`);
  const attack = floodUnsigned(tenants, CONNECTIONS);
  await expectHonestThrough(tenants, attack);
}, 300_000);

test('unsigned requests for a key set that unpacks to 4 GiB', async () => {
  const hostile = await startBombServer(BOMB_BYTES);
  closers.push(() => hostile.stop());
  const tenants = await startWith(`${hostile.url}/jwks.json`);
  const attack = floodUnsigned(tenants, FEW_CONNECTIONS);
  await expectHonestThrough(tenants, attack);
  expect(hostile.count()).toBeGreaterThan(0);
}, 300_000);
