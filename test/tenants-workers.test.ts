// test-run: alone
/** Eight workers share a port and a folder: bounds of a process are fair in each, and one URL takes four PUTs in all. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { join } from 'node:path';
import { startAttack } from './support/attack.ts';
import type { SocketAttack } from './support/attack-on-sockets.ts';
import { makeNode } from './support/canonical-node.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { askHonestly, expectHonest, GREEDY, HONEST, startTenants, type Tenants } from './support/tenants.ts';
import { until } from './support/until.ts';

const WORKERS = 8;
const CONNECTIONS = 512;
const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;
const PROGRAM = join(import.meta.dir, 'support', 'attack-on-sockets.ts');

let tenants: Tenants;
// For each attack, as in tenants-bodies.
beforeEach(async () => {
  tenants = await startTenants('tenants-workers', {
    arguments: ['--workers', String(WORKERS), '--min-free', '0'],
  });
}, 300_000);
afterEach(() => tenants.remove());

const begin = (attack: Omit<SocketAttack, 'port'>) =>
  startAttack(PROGRAM, { port: tenants.server.port, ...attack } satisfies SocketAttack);

const refusedOf = (attack: ReturnType<typeof begin>): number =>
  JSON.parse(attack.lines().at(-1) ?? '{}')['429'] ?? 0;

/** Each request over a connection of its own, so that all workers are asked. */
async function expectHonestWithAll(): Promise<void> {
  const honest = makeSpaceClient(
    tenants.server.url,
    HONEST,
    'space',
    tenants.issuers[HONEST].token('space'),
    false,
  );
  const node = makeNode('honest');
  await honest.store(node, HOUR_MS);
  const report = await askHonestly(tenants.server, [
    async () => (await honest.metadata(node.hash)).status,
    async () => (await honest.lease(node.hash)).status,
    async (turn) => (await honest.commit(`${Math.random()}-${turn}`, { [node.hash]: 1 })).status,
    async (turn) => {
      const each = makeNode(`honest ${Math.random()} ${turn}`);
      const { json } = await honest.lease(each.hash, HOUR_MS);
      return (await honest.put(json.upload, each.bytes)).status;
    },
  ]);
  expectHonest(report);
}

test('512 slow PUTs to one URL: all workers together receive four', async () => {
  const { json } = await tenants.client(GREEDY).lease(makeNode('dripped').hash, HOUR_MS);
  const { url, headers } = json.upload as { url: string; headers: Record<string, string> };
  const lines = Object.entries({ ...headers, host: 'x', 'content-length': '100000' }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const attack = begin({
    ...{ connections: CONNECTIONS, dripMs: 20_000 },
    requests: [`PUT ${new URL(url).pathname} HTTP/1.1\r\n${lines.join('')}\r\n`],
  });
  try {
    await until(() => refusedOf(attack) === CONNECTIONS - 4);
    await expectHonestWithAll();
    expect(refusedOf(attack)).toBe(CONNECTIONS - 4);
  } finally {
    await attack.stop();
  }
}, 300_000);

test('512 JSON bodies of 1 MiB that do not end', async () => {
  const { pathname } = new URL(tenants.client(GREEDY).spaceUrl);
  const attack = begin({
    ...{ connections: CONNECTIONS, bodyBytes: 20_000 },
    requests: [
      `POST ${pathname}/root-refs HTTP/1.1\r\nHost: x\r\nauthorization: Bearer ${tenants.issuers[GREEDY].token('space')}\r\ncontent-type: application/json\r\ncontent-length: ${MIB}\r\n\r\n`,
    ],
  });
  try {
    await until(() => refusedOf(attack) > CONNECTIONS / 4);
    await expectHonestWithAll();
  } finally {
    await attack.stop();
  }
}, 300_000);
