/**
 * The server keeps space free on the disk of the data folder: with less than that it refuses uploads, and everything else
 * works.
 */
import { afterEach, describe, expect, test } from 'bun:test';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode, seededBytes } from './support/canonical-node.ts';
import { makeIssuer } from './support/issuer.ts';
import { addApp, readPrinted, startServer } from './support/server-process.ts';
import { mountSmallDisk } from './support/small-disk.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { until } from './support/until.ts';

const MIB = 1024 * 1024;

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serveOnSmallDisk(args: readonly string[], inodes?: number) {
  const disk = mountSmallDisk(64, inodes);
  cleanups.push(() => disk.remove());
  const data = join(disk.path, 'data');
  mkdirSync(data);
  const issuer = makeIssuer();
  await addApp(data, 'app', issuer);
  const server = await startServer({ data, arguments: args });
  cleanups.push(() => server.isRunning() && server.end('SIGKILL'));
  return { disk, server, client: makeSpaceClient(server.url, 'app', 'space', issuer.token('space')) };
}

describe('less free space than is kept', () => {
  test.each([
    ['5 % of a small disk by default', [], 2 * MIB],
    ['--min-free', ['--min-free', '20MiB'], 10 * MIB],
  ])('%s: uploads are refused, the rest goes on', async (_, args, leftBytes) => {
    const { disk, client } = await serveOnSmallDisk(args);
    const ready = makeNode('ready');
    await client.store(ready);
    // More than becomes a row at once, so that the lease has something to judge.
    const received = makeNode(seededBytes(200_000, 1));
    const opened = makeNode('opened');
    const lease = await client.lease(received.hash);
    const { upload } = (await client.lease(opened.hash)).json;
    expect((await client.put(lease.json.upload, received.bytes)).status).toBe(200);

    disk.fill(leftBytes);
    let asked = 0;
    await until(async () => {
      asked += 1;
      return (await client.lease(makeNode(`new ${asked}`).hash)).status === 503;
    });
    const refused = await client.request('POST', `/cas/nodes/${makeNode('newer').hash}/lease`, {
      leaseDurationMs: 1000,
    });
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toMatch(/^[1-9]/);
    expect((await refused.json()).error).toBe('SERVICE_UNAVAILABLE');
    const put = await client.put(upload, opened.bytes);
    expect([put.status, put.headers.get('retry-after') !== null]).toEqual([503, true]);

    const judged = await client.lease(received.hash);
    expect(judged.json).toMatchObject({ state: 'ready' });
    expect((await client.lease(ready.hash)).json.state).toBe('ready');
    expect((await client.content(received.hash)).status).toBe(200);
    expect((await client.commit('one', { [ready.hash]: 1 })).status).toBe(200);
    expect((await client.gc()).status).toBe(200);

    disk.empty();
    await until(async () => (await client.put(upload, opened.bytes)).status === 200);
    await client.store(opened);
  });
});

test('an inode less than is kept free is as a full disk, and gauge and readiness say so', async () => {
  const { disk, server, client } = await serveOnSmallDisk(['--operator-listen', '127.0.0.1:0'], 400);
  const ready = makeNode('ready');
  await client.store(ready);
  const folder = join(disk.path, 'many');
  mkdirSync(folder);
  let made = 0;
  // 5 % of 400 are kept.
  for (; statfsSync(disk.path).ffree > 20; made += 1) writeFileSync(join(folder, `${made}`), '');
  await until(
    async () => (await client.lease(makeNode(`new ${made++}`).hash)).json.error === 'SERVICE_UNAVAILABLE',
  );
  expect((await client.content(ready.hash)).status).toBe(200);
  const operators = await readPrinted(server, /^operators: (\S+)\n/m);
  const readText = async (path: string) => (await fetch(`${operators}${path}`)).text();
  await until(async () => /disk .*inodes/.test(await readText('/readyz?verbose')));
  expect(await readText('/metrics')).toMatch(/^holdfast_data_free_inodes ([1-9]|1\d|20)$/m);

  rmSync(folder, { recursive: true });
  await until(async () => (await client.lease(makeNode(`new ${made++}`).hash)).status === 200);
});
