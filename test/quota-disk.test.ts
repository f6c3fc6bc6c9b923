/**
 * Quotas bound the disk: received bytes count before they are judged, in every process of a server, and refused bytes are
 * deleted.
 */
import { afterEach, expect, test } from 'bun:test';
import { existsSync, readdirSync } from 'node:fs';
import { makeBulkClient } from './support/bulk-client.ts';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { incomingFolder, objectsFolder } from './support/embedded-files.ts';
import { operatorHeaders } from './support/operator-token.ts';
import { makePack, plain } from './support/planted-pack.ts';
import { openConnection } from './support/raw-connection.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
const KIB = 1024;
const NODE_BYTES = 100 * KIB;
const SMALL_BYTES = 200;

let running: RunningServer;
afterEach(() => running.remove());

const start = async (): Promise<void> => {
  const flags = ['--workers', '2', '--operator-listen', '127.0.0.1:0'];
  running = await startFreshServer('quota-disk', { arguments: flags });
};

async function ask(...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await runHoldfast([...args, '--data', running.data]);
  expect([exitCode, stderr]).toEqual([0, '']);
  return stdout;
}

async function pendingOf(space = SPACE): Promise<number> {
  const spaces = JSON.parse(await ask('space', 'list', '--json')) as {
    space: string;
    pendingBytes: number;
  }[];
  return spaces.find((each) => each.space === space)?.pendingBytes ?? 0;
}

async function pendingOfApp(): Promise<number> {
  return (
    (JSON.parse(await ask('app', 'list', '--json')) as { pendingBytes: number }[])[0]?.pendingBytes ?? -1
  );
}

/** The bytes of objects, and of uploads under way. */
function storedFiles(): string[] {
  return [objectsFolder(running.data), incomingFolder(running.data)].flatMap((folder) => {
    if (!existsSync(folder)) return [];
    const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  });
}

const large = (seed: number) => makeNode(seededBytes(NODE_BYTES, seed));
const small = (seed: number) => makeNode(seededBytes(SMALL_BYTES, seed));

/** Sends without a declared length. */
const putChunked = ({ url, headers }: { url: string; headers: Record<string, string> }, bytes: Uint8Array) =>
  fetch(url, {
    method: 'PUT',
    keepalive: false,
    headers,
    body: new ReadableStream({
      start(controller) {
        controller.enqueue(bytes);
        controller.close();
      },
    }),
  });

/** Every worker has read the quota. The probe sends wrong bytes, so none of them is kept. */
async function untilInForce(bytes: number): Promise<void> {
  const token = running.issuer.token(SPACE);
  // A connection for each request: so both workers are asked.
  const client = makeSpaceClient(running.server.url, APP, SPACE, token, false);
  let looks = 0;
  await until(async () => {
    const { upload } = (await client.lease('ab'.repeat(32))).json;
    const answers = await Promise.all(
      Array.from({ length: 12 }, () => client.put(upload, new Uint8Array(bytes))),
    );
    looks = answers.every(({ status }) => status === 429) ? looks + 1 : 0;
    return looks === 2;
  });
}

async function expectRefused(answer: Response): Promise<void> {
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, null]);
  expect(await answer.json()).toMatchObject({ error: 'RESOURCE_EXHAUSTED' });
}

test.each<[string, readonly string[]]>([
  ['a Space', ['--space', SPACE]],
  ['an App', []],
])(
  'a quota of %s of 1 byte lets no PUT leave anything, whatever its form',
  async (_, flags) => {
    await start();
    await ask('app', 'set', APP, '--max-bytes', '1', ...flags);
    const client = running.client();
    const bulk = makeBulkClient(running.server.url, APP, SPACE, running.issuer.token(SPACE));
    const one = large(1);
    const node = (await client.lease(one.hash)).json.upload;
    const few = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const each = small(100 + index);
        return { each, upload: (await client.lease(each.hash)).json.upload };
      }),
    );
    await untilInForce(SMALL_BYTES);
    await expectRefused(await putChunked(node, one.bytes));
    await expectRefused(await client.put(node, one.bytes));
    for (const { each, upload } of few) await expectRefused(await client.put(upload, each.bytes));
    const pack = await bulk.open([small(7).hash]);
    await expectRefused(await bulk.put(pack, makePack([plain(small(7))])));
    await expectRefused(await putChunked(pack, makePack([plain(small(7))])));
    expect([await pendingOf(), await pendingOfApp()]).toEqual([0, 0]);
    expect(storedFiles()).toEqual([]);
    expect((await client.lease(one.hash)).json.state).toBe('awaiting_upload');
  },
  TEST_MS_MAX,
);

test(
  'what no lease follows counts over all workers, and a lease or a refusal gives it back exactly',
  async () => {
    await start();
    const client = running.client();
    const bulk = makeBulkClient(running.server.url, APP, SPACE, running.issuer.token(SPACE));
    const nodes = Array.from({ length: 8 }, (_, index) => large(index));
    const bytes = nodes[0]?.bytes.length ?? 0;
    await ask('app', 'set', APP, '--space', SPACE, '--max-bytes', String(5 * bytes));
    const uploads = await Promise.all(
      nodes.map(async (node) => ({ node, upload: (await client.lease(node.hash)).json.upload })),
    );
    await untilInForce(6 * NODE_BYTES);
    const answers = await Promise.all(
      uploads.map(async ({ node, upload }) => ({
        node,
        status: (await client.put(upload, node.bytes)).status,
      })),
    );
    expect(answers.map(({ status }) => status).toSorted()).toEqual([
      ...Array(5).fill(200),
      ...Array(3).fill(429),
    ]);
    expect([await pendingOf(), await pendingOfApp()]).toEqual([5 * bytes, 5 * bytes]);
    const operators = /^operators: (\S+)$/m.exec(running.server.output())?.[1] as string;
    await until(async () =>
      (
        await (await fetch(`${operators}/metrics`, { headers: operatorHeaders(running.data) })).text()
      ).includes(`holdfast_pending_bytes{app="${APP}"} ${5 * bytes}\n`),
    );
    expect((await client.usage()).reservedBytes).toBe(0);
    const received = answers.filter(({ status }) => status === 200).map(({ node }) => node);
    for (const node of received) expect((await client.lease(node.hash)).json.state).toBe('ready');
    expect(await pendingOf()).toBe(0);
    await ask('app', 'set', APP, '--space', SPACE, '--max-bytes', 'none');
    const records = [small(200), small(201)];
    const sent = makePack(records.map(plain));
    const statuses: number[] = [];
    await until(async () => {
      statuses.push(
        (
          await bulk.leases(
            records.map(({ hash }) => hash),
            true,
          )
        ).status,
      );
      return statuses.slice(-8).every((status) => status === 200) && statuses.length >= 8;
    });
    const pack = await bulk.open(records.map(({ hash }) => hash));
    expect((await bulk.put(pack, sent)).status).toBe(200);
    expect(await pendingOf()).toBe(sent.length);
    expect((await bulk.lease(pack.id)).status).toBe(200);
    expect(await pendingOf()).toBe(0);
  },
  TEST_MS_MAX,
);

test(
  'a PUT counts at its declared length before its bytes come, and a crash leaves nothing pending',
  async () => {
    await start();
    const client = running.client();
    const [node, whole] = [large(1), large(2)];
    const { upload } = (await client.lease(node.hash)).json;
    const { pathname, host } = new URL(upload.url);
    const connection = await openConnection(running.server.port);
    const headers = Object.entries(upload.headers).map(([name, value]) => `${name}: ${value}\r\n`);
    connection.write(
      `PUT ${pathname} HTTP/1.1\r\nHost: ${host}\r\n${headers.join('')}content-length: ${node.bytes.length}\r\n\r\n`,
    );
    connection.write(node.bytes.subarray(0, 10));
    await until(async () => (await pendingOf()) === node.bytes.length);
    expect(await pendingOfApp()).toBe(node.bytes.length);
    const second = (await client.lease(whole.hash)).json.upload;
    expect((await client.put(second, whole.bytes)).status).toBe(200);
    expect(await pendingOf()).toBe(node.bytes.length + whole.bytes.length);
    await running.restart('SIGKILL');
    connection.destroy();
    expect([await pendingOf(), await pendingOfApp()]).toEqual([whole.bytes.length, whole.bytes.length]);
    expect((await running.client().lease(whole.hash)).json.state).toBe('ready');
    expect(await pendingOf()).toBe(0);
  },
  TEST_MS_MAX,
);
