// test-run: alone
/** On a small disk one tenant asks for many large nodes and reads none of the answers: another tenant still writes and reads. */
import { afterEach, test } from 'bun:test';
import { join } from 'node:path';
import { startAttack } from './support/attack.ts';
import type { SocketAttack } from './support/attack-on-sockets.ts';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { mountSmallDisk } from './support/small-disk.ts';
import { askHonestly, expectHonest, GREEDY, HONEST, startTenants } from './support/tenants.ts';
import { until } from './support/until.ts';

const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;
const DISK_MIB = 256;
const NODES = 52;
const NODE_BYTES = 4 * MIB;
const READERS = 400;

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

test('400 slow readers of distinct ranges, on a disk that has no room for their copies', async () => {
  const disk = mountSmallDisk(DISK_MIB);
  closers.push(() => disk.remove());
  const tenants = await startTenants('tenants-small-disk', {
    folder: disk.path,
    arguments: ['--min-free', '16MiB'],
  });
  closers.push(() => tenants.remove());
  const [greedy, honest] = [tenants.client(GREEDY), tenants.client(HONEST)];
  const nodes = Array.from({ length: NODES }, (_, index) => makeNode(seededBytes(NODE_BYTES, index)));
  for (const node of nodes) await greedy.store(node, HOUR_MS);
  const large = makeNode(seededBytes(MIB, 1000));
  await honest.store(large, HOUR_MS);
  const path = new URL(greedy.spaceUrl).pathname;
  const requests = Array.from({ length: READERS }, (_, index) => {
    const { hash } = nodes[index % NODES] as (typeof nodes)[number];
    const range = `bytes=${index * 1000}-${NODE_BYTES - 1 - index}`;
    return `GET ${path}/cas/nodes/${hash}/content HTTP/1.1\r\nHost: x\r\nauthorization: $AUTHORIZATION\r\nrange: ${range}\r\n\r\n`;
  });
  const attack = startAttack(join(import.meta.dir, 'support', 'attack-on-sockets.ts'), {
    ...{ port: tenants.server.port, connections: READERS, requests, stalls: true, again: true },
    authorization: `Bearer ${tenants.issuers[GREEDY].token('space')}`,
  } satisfies SocketAttack);
  closers.push(() => attack.stop());
  await until(() => JSON.parse(attack.lines().at(-1) ?? '{}')['206'] > 0);
  const report = await askHonestly(tenants.server, [
    async (turn) => {
      const node = makeNode(seededBytes(200_000, 2000 + turn));
      const { json } = await honest.lease(node.hash, HOUR_MS);
      const put = await honest.put(json.upload, node.bytes);
      return put.status === 200 ? (await honest.lease(node.hash, HOUR_MS)).status : put.status;
    },
    async () => {
      const answer = await honest.content(large.hash);
      return (await answer.bytes()).length === MIB ? 200 : answer.status;
    },
    async (turn) => (await honest.commit(`${Math.random()}-${turn}`, { [large.hash]: 1 })).status,
  ]);
  expectHonest(report);
}, 300_000);
