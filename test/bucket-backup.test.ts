/** A backup of a bucket over real PostgreSQL and Ceph: it copies and proves objects, and a restore puts missing ones back. */
import { afterAll, expect, test } from 'bun:test';
import { createHash, randomBytes } from 'node:crypto';
import { appendFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { formatContentUrl, makeS3Environment, openEngines, startCluster } from './support/cluster.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { APP, SPACE } from './support/running-server.ts';
import { listKeys, sendToBucket } from './support/s3-request.ts';
import { readPrinted, runHoldfast, startServer } from './support/server-process.ts';
import { makeSpaceClient, type SpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 900_000;
const NODES = 12;
const BYTES = 300_000;
const KILLS = 5;
const folder = makeTempFolder('bucket-backup');
const dir = join(folder.path, 'backup');
const engines = await openEngines();
const second = await openEngines();
afterAll(async () => {
  await engines.close();
  await second.close();
  folder.remove();
});

const run = async (environment: Record<string, string>, ...args: readonly string[]) => {
  const { exitCode, stdout, stderr } = await runHoldfast([...args, '--json', '--quiet'], { environment });
  return { exitCode, stderr, json: stdout === '' ? undefined : JSON.parse(stdout) };
};
const environment = makeS3Environment(engines.bucket);
const backUp = (...more: readonly string[]) =>
  run(environment, 'backup', dir, '--content', formatContentUrl(engines.bucket), ...more);
const remove = async (key: string): Promise<void> => {
  expect((await sendToBucket(engines.bucket, { method: 'DELETE', key })).status).toBe(204);
};
const check = () => run({}, 'backup', 'check', dir);

const listFiles = (): string[] =>
  readdirSync(join(dir, 'objects'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

async function expectReadable(client: SpaceClient, nodes: readonly ReturnType<typeof makeNode>[]) {
  for (const { hash, content } of nodes) {
    // The scrub may have met an object while it was gone: the node is damaged until the scrub has read it again.
    await until(async () => (await client.content(hash)).status === 200);
    const answer = await client.content(hash);
    expect(answer.status).toBe(200);
    expect(Buffer.from(await answer.arrayBuffer()).equals(Buffer.from(content))).toBe(true);
  }
}

test(
  'copies what is new, proves it, and puts back what a bucket lacks',
  async () => {
    const cluster = await startCluster(engines, { processes: 1 });
    try {
      const client = cluster.client();
      const nodes = Array.from({ length: NODES }, (_, seed) => makeNode(seededBytes(BYTES, seed)));
      for (const node of nodes) await client.store(node);
      await client.commit('keep', Object.fromEntries(nodes.map(({ hash }) => [hash, 1])));
      const first = await backUp();
      expect(first).toMatchObject({ exitCode: 0, stderr: '', json: { nodes: NODES } });
      expect(first.json.copiedBytes).toBe(first.json.bytes);
      expect((await backUp()).json).toMatchObject({ nodes: NODES, copiedBytes: 0 });
      const named = {
        ...environment,
        HOLDFAST_METADATA: engines.metadataUrl,
        HOLDFAST_CONTENT: formatContentUrl(engines.bucket),
      };
      expect((await run(named, 'backup', dir)).json).toMatchObject({ nodes: NODES, copiedBytes: 0 });
      const late = makeNode(seededBytes(BYTES, 100));
      await client.store(late, 60_000);
      const again = (await backUp()).json;
      expect([again.nodes, again.copiedBytes]).toEqual([NODES + 1, late.bytes.length]);
      expect(await check()).toMatchObject({ exitCode: 0, json: { ok: true, nodes: NODES + 1 } });

      // The bucket loses objects.
      const keys = await listKeys(engines.bucket, 'nodes/');
      for (const key of keys.slice(0, 3)) await remove(key);
      const kept = (await backUp()).json;
      expect([kept.nodes, kept.copiedBytes]).toEqual([NODES + 1, 0]);
      const content = ['--content', formatContentUrl(engines.bucket)];
      expect((await run(environment, 'restore', dir, ...content)).json).toMatchObject({ restored: 3 });
      expect(await listKeys(engines.bucket, 'nodes/')).toEqual(keys);
      await expectReadable(client, [...nodes, late]);

      // All of it goes into an empty bucket, and a server goes on with that one.
      await cluster.servers[0]?.terminate();
      const other = ['--content', formatContentUrl(second.bucket)];
      const restored = await run(makeS3Environment(second.bucket), 'restore', dir, ...other);
      expect(restored).toMatchObject({ exitCode: 0, json: { restored: NODES + 1 } });
      const moved = await startServer({
        data: join(folder.path, 'data'),
        arguments: ['--metadata', engines.metadataUrl, ...other],
        environment: makeS3Environment(second.bucket),
      });
      try {
        await expectReadable(makeSpaceClient(moved.url, APP, SPACE, cluster.issuer.token(SPACE)), nodes);
      } finally {
        await moved.end('SIGKILL');
      }

      // Objects of collected nodes stay in the backup for a while, and then go.
      await remove(keys[0] as string);
      expect((await backUp()).json.nodes).toBe(NODES + 1);
      expect((await backUp('--keep-gone', '1ms')).json.nodes).toBe(NODES);
      expect(listFiles().length).toBe(NODES);

      // Damage is named, and the rest is put back.
      appendFileSync(listFiles()[0] as string, 'x');
      rmSync(listFiles()[1] as string);
      const damaged = await check();
      expect([damaged.exitCode, damaged.json.ok, damaged.json.damagedFiles.length]).toEqual([1, false, 2]);
      expect(damaged.json.damagedFiles[0]).toStartWith(`object ${join(dir, 'objects')}`);
      expect(damaged.stderr).toContain('the next backup reads them anew');
      for (const key of keys) await remove(key);
      const partly = await run(environment, 'restore', dir, ...content);
      expect(partly.exitCode).toBe(1);
      expect(partly.stderr).toContain('is damaged in');
      expect((await listKeys(engines.bucket, 'nodes/')).length).toBe(NODES - 2);
    } finally {
      await cluster.remove();
    }
  },
  TEST_MS_MAX,
);

test(
  'a copy that is killed at any moment leaves the former one good, and the same command continues it',
  async () => {
    const { bucket } = engines;
    const killed = join(folder.path, 'killed');
    const words = ['backup', killed, '--content', formatContentUrl(bucket), '--keep-gone', '1ms'];
    // The keys are made here: such a copy asks for no rows.
    const [known = ''] = await listKeys(bucket, 'nodes/');
    const put = async (): Promise<string> => {
      const generation = randomBytes(16).toString('hex');
      const spread = createHash('sha256').update(generation).digest('hex').slice(0, 2);
      const key = known.replace(/[^/]+(\/[^/]+\/)[^/]+$/, `${spread}$1${generation}`);
      const body = new Uint8Array(randomBytes(BYTES));
      expect((await sendToBucket(bucket, { method: 'PUT', key, body })).status).toBe(200);
      return key;
    };
    const startedAt = performance.now();
    expect((await run(environment, ...words)).exitCode).toBe(0);
    const wholeMs = performance.now() - startedAt;
    for (let round = 0; round < KILLS; round += 1) {
      const [key = ''] = await Promise.all([put(), put(), put(), put()]);
      const child = Bun.spawn([HOLDFAST, ...words, '--quiet'], {
        env: { ...process.env, ...environment },
        stderr: 'ignore',
      });
      // Random, so that over time every moment is met.
      await Promise.race([child.exited, Bun.sleep(wholeMs * Math.random() * 1.2)]);
      child.kill('SIGKILL');
      await child.exited;
      expect(await run({}, 'backup', 'check', killed)).toMatchObject({ exitCode: 0, json: { ok: true } });
      await remove(key);
    }
    // The first one notes what has gone from the bucket, the next one lets it go.
    expect((await run(environment, ...words)).exitCode).toBe(0);
    const last = await run(environment, ...words);
    expect(last.json.nodes).toBe((await listKeys(bucket, 'nodes/')).length);
    expect(await run({}, 'backup', 'check', killed)).toMatchObject({ exitCode: 0, json: { ok: true } });
    expect(readdirSync(join(killed, 'incoming'))).toEqual([]);
  },
  TEST_MS_MAX,
);

test(
  'servers tell how old the backup is, and one that may not write into the bucket is made all the same',
  async () => {
    const { bucket } = engines;
    const told = join(folder.path, 'told');
    const words = ['backup', told, '--content', formatContentUrl(bucket)];
    const startedAt = Date.now();
    expect(await run(environment, ...words)).toMatchObject({ exitCode: 0, stderr: '' });
    const endedAt = Date.now();
    const server = await startServer({
      data: join(folder.path, 'telling'),
      arguments: [
        ...['--metadata', engines.metadataUrl, '--content', formatContentUrl(bucket)],
        ...['--operator-listen', '127.0.0.1:0'],
      ],
      environment,
    });
    try {
      const operators = await readPrinted(server, /^operators: (\S+)\n/m);
      const readSeconds = async (): Promise<number> => {
        const text = await (await fetch(`${operators}/metrics`)).text();
        return Number(/^holdfast_backup_last_success_timestamp_seconds (\S+)$/m.exec(text)?.[1]);
      };
      await until(async () => (await readSeconds()) > 0);
      const seconds = await readSeconds();
      expect([seconds >= startedAt / 1000, seconds <= endedAt / 1000]).toEqual([true, true]);
    } finally {
      await server.end('SIGKILL');
    }
    const [key = ''] = (await listKeys(bucket)).filter((each) => each.endsWith('holdfast-last-backup'));
    const denied = {
      ...{ Effect: 'Deny', Principal: '*', Action: 's3:PutObject' },
      Resource: `arn:aws:s3:::${bucket.name}/${key}`,
    };
    const policy = JSON.stringify({ Version: '2012-10-17', Statement: [denied] });
    const query = { policy: '' };
    expect((await sendToBucket(bucket, { method: 'PUT', query, body: policy })).ok).toBe(true);
    expect(await run(environment, ...words)).toMatchObject({
      exitCode: 0,
      stderr: expect.stringContaining('its time could not be written into the bucket'),
    });
    expect((await sendToBucket(bucket, { method: 'DELETE', query })).ok).toBe(true);
    expect(await run({}, 'backup', 'check', told)).toMatchObject({ exitCode: 0, json: { ok: true } });
  },
  TEST_MS_MAX,
);

test('refuses another bucket, a folder of something else, and two places at once', async () => {
  const strange = await run(
    makeS3Environment(second.bucket),
    'restore',
    dir,
    '--data',
    dir,
    '--content',
    's3://a',
  );
  expect(strange.exitCode).toBe(2);
  const both = await backUp('--data', folder.path);
  expect([both.exitCode, both.stderr]).toEqual([2, expect.stringContaining('give one of them')]);
  const full = await run(environment, 'backup', folder.path, '--content', formatContentUrl(engines.bucket));
  expect([full.exitCode, full.stderr]).toEqual([1, expect.stringContaining('is not empty')]);
});
