// test-run: alone
/** One tenant sends bodies that never end, and reads answers that it never takes: another tenant does not notice. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { startAttack } from './support/attack.ts';
import type { SocketAttack } from './support/attack-on-sockets.ts';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import { askHonestly, expectHonest, GREEDY, HONEST, startTenants, type Tenants } from './support/tenants.ts';
import { until } from './support/until.ts';

const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;
const PROGRAM = join(import.meta.dir, 'support', 'attack-on-sockets.ts');

let tenants: Tenants;
let large: CanonicalNode;
// A server for each attack: what one attack left in memory does not count as another one's.
beforeEach(async () => {
  tenants = await startTenants('tenants-bodies', { arguments: ['--min-free', '0', '--upload-ttl', '1h'] });
  large = makeNode(seededBytes(MIB, 7));
  await tenants.client(HONEST).store(large, HOUR_MS);
}, 300_000);
afterEach(() => tenants.remove());

const begin = (attack: Omit<SocketAttack, 'port'>) =>
  startAttack(PROGRAM, { port: tenants.server.port, ...attack } satisfies SocketAttack);

const pathOf = (url: string): string => new URL(url).pathname;

function headOf(method: string, path: string, fields: Readonly<Record<string, string | number>>): string {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\nHost: x\r\n${lines.join('')}\r\n`;
}

const refusedOf = (attack: ReturnType<typeof begin>): number =>
  JSON.parse(attack.lines().at(-1) ?? '{}')['429'] ?? 0;

/** The honest tenant writes, reads and uploads while `attack` goes on and has had `refused` refusals. */
async function expectHonestDuring(attack: ReturnType<typeof begin>, refused = 0): Promise<void> {
  const honest = tenants.client(HONEST);
  try {
    await attack.begun;
    await until(() => refusedOf(attack) >= refused);
    const node = makeNode('honest');
    await honest.store(node, HOUR_MS);
    const report = await askHonestly(tenants.server, [
      async () => (await honest.lease(node.hash)).status,
      async (turn) => (await honest.commit(`${Math.random()}-${turn}`, { [node.hash]: 1 })).status,
      async () => (await honest.metadata(node.hash)).status,
      async (turn) => {
        const each = makeNode(`honest ${Math.random()} ${turn}`);
        const { json } = await honest.lease(each.hash, HOUR_MS);
        return (await honest.put(json.upload, each.bytes)).status;
      },
      async () => {
        const answer = await honest.content(large.hash);
        return (await answer.bytes()).length === MIB ? 200 : answer.status;
      },
    ]);
    expectHonest(report);
  } finally {
    await attack.stop();
  }
}

const greedyPath = (rest: string): string => `${pathOf(tenants.client(GREEDY).spaceUrl)}${rest}`;
const greedyToken = (space = 'space'): string => `Bearer ${tenants.issuers[GREEDY].token(space)}`;

describe('uploads', () => {
  async function openUpload(name: string) {
    const { json } = await tenants.client(GREEDY).lease(makeNode(name).hash, HOUR_MS);
    return json.upload as { url: string; headers: Record<string, string> };
  }
  const putOf = ({ url, headers }: Awaited<ReturnType<typeof openUpload>>): string =>
    headOf('PUT', pathOf(url), { ...headers, 'content-length': 10_000 });

  test('512 slow PUTs to one URL: four are received', async () => {
    const upload = await openUpload('dripped');
    const attack = begin({ connections: 512, requests: [putOf(upload)], dripMs: 20_000 });
    // A few of those beyond four wait for a place before they are refused. The four are too slow, and cut off at last.
    await until(() => refusedOf(attack) === 508);
    await expectHonestDuring(attack);
    expect(refusedOf(attack)).toBe(508);
  }, 300_000);

  test('600 slow PUTs to many URLs: those beyond the share are refused', async () => {
    const uploads: string[] = [];
    for (let count = 0; count < 150; count += 1) uploads.push(putOf(await openUpload(`many ${count}`)));
    await expectHonestDuring(begin({ connections: 600, requests: uploads, dripMs: 20_000 }), 50);
  }, 300_000);
});

describe('JSON bodies that do not end', () => {
  const unfinished = (bytes: number, authorization = greedyToken()): string =>
    headOf('POST', greedyPath(`/cas/nodes/${'a'.repeat(64)}/lease`), {
      authorization,
      'content-type': 'application/json',
      'content-length': bytes,
    });

  test('800 of 1 MiB: few are kept in memory', async () => {
    const attack = begin({ connections: 800, requests: [unfinished(MIB)], bodyBytes: MIB - 1 });
    await expectHonestDuring(attack, 700);
  }, 300_000);

  test('4,096 of a few bytes', async () => {
    await expectHonestDuring(begin({ connections: 4096, requests: [unfinished(100)], bodyBytes: 50 }));
  }, 300_000);

  test('1,024 of 1 MiB that are sent again and again', async () => {
    const attack = begin({ connections: 1024, requests: [unfinished(MIB)], bodyBytes: 20_000, again: true });
    await expectHonestDuring(attack, 1000);
  }, 300_000);
});

test.each([
  ['blanks', false],
  ['escapes', true],
])(
  '256 whole JSON bodies of 1 MiB, again and again: %s',
  async (_, escapes) => {
    const request = headOf('POST', greedyPath(`/cas/nodes/${'a'.repeat(64)}/lease`), {
      authorization: greedyToken(),
      'content-type': 'application/json',
      'content-length': MIB,
    });
    await expectHonestDuring(
      begin({ connections: 256, requests: [request], bodyBytes: MIB, again: true, escapes }),
      250,
    );
  },
  300_000,
);

describe('answers that are not read', () => {
  test('150 distinct ranges of large nodes, and 100 HEADs', async () => {
    const greedy = tenants.client(GREEDY);
    const nodes = Array.from({ length: 6 }, (_, index) => makeNode(seededBytes(20 * MIB, 100 + index)));
    for (const node of nodes) await greedy.store(node, HOUR_MS);
    const ask = (method: string, index: number): string =>
      headOf(method, greedyPath(`/cas/nodes/${nodes[index % nodes.length]?.hash}/content`), {
        authorization: '$AUTHORIZATION',
        range: `bytes=${index * 1000}-${20 * MIB - 1 - index}`,
      });
    const requests = Array.from({ length: 250 }, (_, index) => ask(index < 150 ? 'GET' : 'HEAD', index));
    await expectHonestDuring(
      begin({ connections: 250, requests, authorization: greedyToken(), stalls: true }),
    );
  }, 300_000);

  test('2,000 small ones', async () => {
    const greedy = tenants.client(GREEDY);
    const node = makeNode(seededBytes(250_000, 300));
    await greedy.store(node, HOUR_MS);
    const request = headOf('GET', greedyPath(`/cas/nodes/${node.hash}/content`), {
      authorization: greedyToken(),
    });
    await expectHonestDuring(begin({ connections: 2000, requests: [request], stalls: true }));
  }, 300_000);
});
