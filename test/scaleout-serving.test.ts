/** Servers on PostgreSQL and S3 at work: large answers, callers that go away, Apps that change, turns at background work. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { SQL } from 'bun';
import { type CanonicalNode, makeNode, seededBytes } from './support/canonical-node.ts';
import { type Cluster, type ClusterServer, openEngines, startCluster } from './support/cluster.ts';
import { makeIssuer } from './support/issuer.ts';
import { APP, SPACE } from './support/running-server.ts';
import { listKeys, sendToBucket } from './support/s3-request.ts';
import { addApp, readResidentBytes, runHoldfast } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const MIB = 1024 * 1024;
const HOUR_MS = 3_600_000;
const TEST_MS_MAX = 300_000;
/** docs/operations.md: a change of an App is in force everywhere after 5 s. A busy machine may add some. */
const EFFECT_MS_MAX = 5_000 + 60_000;
const SLOW_READERS = 100;
/** Only an answer with content of an object has this many bytes. */
const BEGUN_BYTES = 60_000;

const engines = await openEngines();
let cluster: Cluster;
/** 20 MiB: larger than what is answered from memory */
let large: CanonicalNode;
/** 8 MiB: as large as that may be */
let medium: CanonicalNode;

beforeAll(async () => {
  cluster = await startCluster(engines, { processes: 2, isProxied: true });
  large = makeNode(seededBytes(20 * MIB, 1));
  medium = makeNode(seededBytes(8 * MIB, 2));
  for (const node of [large, medium]) await cluster.client().store(node, HOUR_MS);
}, TEST_MS_MAX);
afterAll(async () => {
  await cluster.remove();
  await engines.close();
});

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

function serverAt(index: number): ClusterServer {
  const server = cluster.servers[index];
  if (server === undefined) throw new Error(`the cluster has no server ${index}`);
  return server;
}

interface SlowReader {
  readonly socket: Socket;
  /** its answer has begun */
  isAnswered: boolean;
}

/** A caller of server 0 that has asked for a node's content, and stops reading with the first bytes of the answer. */
function askSlowly(hash: string): Promise<SlowReader> {
  const { port } = serverAt(0).process;
  const head = [
    `GET /v1/apps/${APP}/spaces/${SPACE}/cas/nodes/${hash}/content HTTP/1.1`,
    'Host: h',
    `Authorization: Bearer ${cluster.issuer.token(SPACE)}`,
  ];
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.write(`${head.join('\r\n')}\r\n\r\n`, () => resolve(reader));
    });
    const reader: SlowReader = { socket, isAnswered: false };
    socket.once('data', () => {
      socket.pause();
      reader.isAnswered = true;
    });
    socket.on('error', reject);
  });
}

describe('large content', () => {
  test.each([
    ['gathered in memory', () => medium],
    ['put together in a file', () => large],
  ])('%s has its length, its type and the steps of its making', async (_, nodeOf) => {
    const node = nodeOf();
    for (const index of [0, 1]) {
      const answer = await cluster.clientOf(index).content(node.hash);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-length')).toBe(String(node.content.length));
      expect(answer.headers.get('transfer-encoding')).toBeNull();
      const timing = answer.headers.get('server-timing') ?? '';
      expect(timing).toMatch(/cas_meta_find_node_with_content;dur=/);
      expect(timing).toMatch(/cas_content_read;dur=/);
      expect(sha256(await answer.bytes())).toBe(sha256(node.content));
      const part = await cluster.clientOf(index).content(node.hash, `bytes=1-${node.content.length - 2}`);
      expect(part.status).toBe(206);
      expect(part.headers.get('content-length')).toBe(String(node.content.length - 2));
      expect(sha256(await part.bytes())).toBe(sha256(node.content.subarray(1, -1)));
    }
  });

  test(
    'a caller who leaves ends the reading from the store',
    async () => {
      const proxy = serverAt(0).s3Proxy;
      if (proxy === undefined) throw new Error('the cluster has no proxies');
      for (const [index, bytes] of [8 * MIB, 20 * MIB].entries()) {
        // Nobody has read it yet.
        const node = makeNode(seededBytes(bytes, 10 + index));
        await cluster.client().store(node, HOUR_MS);
        const before = proxy.accepted;
        // At this rate the object takes a minute and more.
        proxy.setMode({ kind: 'slow', bytesPerSecond: 100_000, delayMs: 0 });
        const sentBefore = proxy.answerBytes;
        const { socket } = await askSlowly(node.hash);
        await until(() => proxy.answerBytes > sentBefore + BEGUN_BYTES);
        const busy = proxy.connections;
        expect(busy).toBeGreaterThan(0);
        socket.destroy();
        await until(() => proxy.connections < busy);
        proxy.setMode({ kind: 'pass' });
        expect((await cluster.clientOf(0).content(node.hash)).status).toBe(200);
        expect(proxy.accepted).toBeGreaterThanOrEqual(before);
      }
    },
    TEST_MS_MAX,
  );

  test(
    'many slow readers take a bounded amount of memory',
    async () => {
      const { pid } = serverAt(0).process;
      const before = readResidentBytes(pid);
      const readers: SlowReader[] = [];
      try {
        for (let wave = 0; wave < SLOW_READERS / 20; wave += 1) {
          readers.push(...(await Promise.all(Array.from({ length: 20 }, () => askSlowly(medium.hash)))));
          await until(() => readers.every(({ isAnswered }) => isAnswered));
        }
        // All of their answers in memory would take more.
        expect(readResidentBytes(pid) - before).toBeLessThan(SLOW_READERS * 8 * MIB * 0.8);
        const answer = await cluster.clientOf(0).content(medium.hash);
        expect(sha256(await answer.bytes())).toBe(sha256(medium.content));
      } finally {
        for (const { socket } of readers) socket.destroy();
      }
    },
    TEST_MS_MAX,
  );
});

test(
  'suspending, resuming and removing an App holds on every server within 5 s',
  async () => {
    const folder = makeTempFolder('scaleout-app');
    const issuer = makeIssuer('https://life.test');
    const administer = async (...args: readonly string[]): Promise<void> => {
      const { exitCode, stderr } = await runHoldfast(['app', ...args], {
        environment: { HOLDFAST_METADATA: engines.metadataUrl },
      });
      expect([exitCode, stderr]).toEqual([0, '']);
    };
    const expectEffect = async (expected: string, withinMs = EFFECT_MS_MAX): Promise<void> => {
      const changedAt = performance.now();
      for (const { process } of cluster.servers) {
        for (;;) {
          const askedAt = performance.now();
          const answer = await fetch(`${process.url}/v1/apps/life/spaces/space/cas/usage`, {
            headers: { authorization: `Bearer ${issuer.token('space')}` },
          });
          const body = (await answer.json()) as { error?: string };
          if ((body.error ?? 'ok') === expected) break;
          if (askedAt - changedAt >= withinMs) throw new Error(`${expected} expected, got ${body.error}`);
          await Bun.sleep(50);
        }
      }
    };
    try {
      await addApp(join(folder.path, 'data'), 'life', issuer, engines.metadataUrl);
      await expectEffect('ok', 0);
      await administer('suspend', 'life');
      await expectEffect('APP_SUSPENDED');
      await administer('resume', 'life');
      await expectEffect('ok');
      await administer('remove', 'life');
      await expectEffect('unknown_issuer');
    } finally {
      folder.remove();
    }
  },
  TEST_MS_MAX,
);

test(
  'a node whose object is lost is reported by the server that finds it, then by all, until it is healed',
  async () => {
    const node = makeNode(seededBytes(1000, 3));
    const before = new Set(await listKeys(engines.bucket));
    await cluster.client().store(node, HOUR_MS);
    const [key = ''] = (await listKeys(engines.bucket)).filter((each) => !before.has(each));
    expect(await sendToBucket(engines.bucket, { method: 'DELETE', key })).toHaveProperty('status', 204);
    expect((await cluster.clientOf(0).content(node.hash)).status).toBe(503);
    await until(() => serverAt(0).process.log().includes(`"space":"${SPACE}","hash":"${node.hash}"`));
    const tells = async (index: number): Promise<string | null> =>
      (await cluster.clientOf(index).request('GET', `/cas/nodes/${node.hash}/metadata`)).headers.get(
        'holdfast-rotten-nodes',
      );
    expect(await tells(0)).toBe('1');
    await until(async () => (await tells(1)) === '1');
    await cluster.clientOf(1).store(node);
    expect(await tells(1)).toBeNull();
    await until(async () => (await tells(0)) === null);
  },
  TEST_MS_MAX,
);

test(
  'background work is done by one server, and by another as soon as that one drains',
  async () => {
    const sql = new SQL(engines.metadataUrl, { max: 1 });
    const readTurns = async (): Promise<Record<string, string>> => {
      const rows = await sql`SELECT name, holder FROM background_turns WHERE held_until > 0`;
      return Object.fromEntries(rows.map(({ name, holder }: Record<string, string>) => [name, holder]));
    };
    try {
      const tasks = ['sweep', 'scrub', 'compact'];
      await until(async () => {
        const held = await readTurns();
        return tasks.every((task) => held[task] !== undefined);
      });
      const before = await readTurns();
      for (const server of cluster.servers) {
        expect(await server.terminate()).toBe(0);
        await server.start();
      }
      await until(async () => {
        const after = await readTurns();
        return tasks.every((task) => after[task] !== undefined && after[task] !== before[task]);
      });
      expect(cluster.logs()).not.toContain('background work failed');
    } finally {
      await sql.close();
    }
  },
  TEST_MS_MAX,
);

test(
  'a server whose engines do not answer says so, and still ends in time',
  async () => {
    const server = serverAt(1);
    server.postgresProxy?.setMode({ kind: 'hang' });
    server.s3Proxy?.setMode({ kind: 'hang' });
    try {
      const answer = await cluster.clientOf(1).content(medium.hash);
      expect(answer.status).toBe(503);
      expect(answer.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
      expect((await fetch(`${server.process.url}/health`)).status).toBe(200);
      // Only there to end what hangs: a slow machine took 26 s.
      const endsAt = performance.now() + 60_000;
      expect(await server.terminate()).toBe(0);
      expect(performance.now()).toBeLessThan(endsAt);
    } finally {
      server.postgresProxy?.setMode({ kind: 'pass' });
      server.s3Proxy?.setMode({ kind: 'pass' });
    }
  },
  TEST_MS_MAX,
);
