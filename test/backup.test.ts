/** `holdfast backup`, `backup check` and `restore` as an operator runs them, on a server that is being written to. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeBulkClient } from './support/bulk-client.ts';
import { type CanonicalNode, makeNode } from './support/canonical-node.ts';
import { HOLDFAST } from './support/holdfast-command.ts';
import { packed, plain } from './support/planted-pack.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { runHoldfast, startServer, tryStartServer } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';

/** More than the rows keep inline. */
const LARGE_BYTES = 300_000;
/** By each writer, so that the rest of a test does not grow with the speed of the server. */
const WRITES_MAX = 150;

let running: RunningServer;
const folder = makeTempFolder('backup');
const at = (name: string): string => join(folder.path, name);
const small = Array.from({ length: 300 }, (_, index) => makeNode(`small ${index} ${'x'.repeat(1000)}`));
const large = Array.from({ length: 6 }, (_, index) => makeNode(new Uint8Array(LARGE_BYTES).fill(index)));

beforeAll(async () => {
  running = await startFreshServer('backup');
  const client = running.client();
  for (const node of [...small, ...large]) await client.store(node);
  await client.commit('keep', Object.fromEntries([...small, ...large].map(({ hash }) => [hash, 1])));
});

afterAll(async () => {
  await running.remove();
  folder.remove();
});

const backUp = async (dir: string): Promise<Record<'nodes' | 'bytes' | 'copiedBytes' | 'ms', number>> => {
  const { exitCode, stdout, stderr } = await runHoldfast(['backup', dir, '--data', running.data, '--json']);
  expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining('holdfast:')]);
  return JSON.parse(stdout);
};

const check = (dir: string) => runHoldfast(['backup', 'check', dir, '--json']);

function listFiles(root: string): string[] {
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

async function isReadable(client: ReturnType<RunningServer['client']>, nodes: readonly CanonicalNode[]) {
  for (const { hash, content } of nodes) {
    const answer = await client.content(hash);
    expect(answer.status).toBe(200);
    expect(Buffer.from(await answer.arrayBuffer()).equals(Buffer.from(content))).toBe(true);
  }
}

describe('a backup', () => {
  test('is private, shares no file, and copies only what changed', async () => {
    const dir = at('incremental');
    const first = await backUp(dir);
    expect(first).toMatchObject({ nodes: small.length + large.length, copiedBytes: first.bytes });
    const inodes = new Set(listFiles(running.data).map((path) => statSync(path).ino));
    for (const path of listFiles(dir)) {
      expect(inodes.has(statSync(path).ino)).toBe(false);
      expect(statSync(path).mode & 0o077).toBe(0);
    }
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    const more = makeNode(new Uint8Array(LARGE_BYTES).fill(77));
    await running.client().store(more);
    // Leased for so long that no collection takes it during the tests.
    await running.client().commit('more', { [more.hash]: 1 });
    const again = await backUp(dir);
    expect(again.nodes).toBe(first.nodes + 1);
    expect(again.copiedBytes).toBeGreaterThanOrEqual(LARGE_BYTES);
    expect(again.copiedBytes).toBeLessThan(LARGE_BYTES + 50 * 4096);
    expect((await check(dir)).exitCode).toBe(0);
  });

  test('has all that was acknowledged before it began, while more is written', async () => {
    const dir = at('busy');
    const client = running.client('busy');
    let isOver = false;
    const acknowledged: CanonicalNode[] = [];
    const write = async (writer: number): Promise<void> => {
      for (let index = 0; !isOver && index < WRITES_MAX; index += 1) {
        const node = makeNode(
          index % 7 === 0 ? new Uint8Array(70_000 + writer * 50 + index).fill(1) : `${writer}.${index}`,
        );
        await client.store(node);
        acknowledged.push(node);
      }
    };
    const writers = Array.from({ length: 4 }, (_, writer) => write(writer));
    const known: CanonicalNode[][] = [];
    for (let round = 0; round < 3; round += 1) {
      known.push([...acknowledged]);
      await backUp(dir);
      cpSync(dir, at(`busy-${round}`), { recursive: true });
    }
    isOver = true;
    await Promise.all(writers);
    for (const [round, nodes] of known.entries()) {
      const result = await runHoldfast(['restore', at(`busy-${round}`), '--data', at(`busy-data-${round}`)]);
      expect([result.exitCode, result.stderr]).toEqual([0, expect.not.stringContaining('holdfast:')]);
      const server = await startServer({ data: at(`busy-data-${round}`) });
      await isReadable(makeSpaceClient(server.url, APP, 'busy', running.issuer.token('busy')), nodes);
      await server.end('SIGKILL');
    }
  }, 900_000);

  test('that is killed at any moment leaves the former backup good', async () => {
    const dir = at('killed');
    await backUp(dir);
    const client = running.client('killed');
    for (let round = 0; round < 6; round += 1) {
      for (let index = 0; index < 20; index += 1) {
        await client.store(makeNode(new Uint8Array(60_000).fill(round * 20 + index + 1)));
      }
      const child = Bun.spawn([HOLDFAST, 'backup', dir, '--data', running.data], { stderr: 'ignore' });
      // Random, so that many runs meet every moment.
      await Promise.race([child.exited, Bun.sleep(150 + Math.random() * 350)]);
      child.kill('SIGKILL');
      await child.exited;
      expect((await check(dir)).exitCode).toBe(0);
    }
    await backUp(dir);
    expect(existsSync(join(dir, 'UNFINISHED'))).toBe(false);
    expect((await check(dir)).exitCode).toBe(0);
  }, 900_000);

  test('with a damaged node: check and restore name it, and it heals by the next upload', async () => {
    const dir = at('damaged');
    await backUp(dir);
    const [victim] = large as [CanonicalNode];
    const object = listFiles(join(dir, 'objects')).find((path) =>
      readFileSync(path).equals(Buffer.from(victim.bytes)),
    );
    const bytes = readFileSync(object as string);
    bytes[1000] = (bytes[1000] ?? 0) ^ 1;
    writeFileSync(object as string, bytes);
    const checked = await check(dir);
    expect(checked.exitCode).toBe(1);
    expect(JSON.parse(checked.stdout)).toMatchObject({
      ok: false,
      damagedNodes: [{ app: APP, space: SPACE, hash: victim.hash }],
    });
    const data = join(at('healing'), 'below');
    const restored = await runHoldfast(['restore', dir, '--data', data, '--json']);
    expect([restored.exitCode, restored.stderr]).toEqual([1, expect.stringContaining(victim.hash)]);
    expect(JSON.parse(restored.stdout)).toMatchObject({
      damagedNodes: [{ app: APP, space: SPACE, hash: victim.hash }],
    });
    const server = await startServer({ data });
    try {
      const client = makeSpaceClient(server.url, APP, SPACE, running.issuer.token(SPACE));
      expect((await client.content(victim.hash)).status).toBe(503);
      await isReadable(client, [...small, ...large.slice(1)]);
      await client.store(victim);
      await isReadable(client, [victim]);
    } finally {
      await server.end('SIGKILL');
    }
  });

  test('whose list is damaged restores nothing, and leaves nothing', async () => {
    const dir = at('damaged-list');
    await backUp(dir);
    writeFileSync(join(dir, 'BACKUP'), '{');
    mkdirSync(at('stood'));
    for (const data of [join(at('never'), 'below'), at('stood')]) {
      const { exitCode, stderr } = await runHoldfast(['restore', dir, '--data', data]);
      expect([exitCode, stderr]).toEqual([
        1,
        expect.stringContaining(`mv ${dir}/BACKUP.former ${dir}/BACKUP`),
      ]);
    }
    // Nothing is left but what was there before.
    expect(existsSync(at('never'))).toBe(false);
    expect(readdirSync(at('stood'))).toEqual([]);
  });

  test('with a damaged page names the nodes that lie on it', async () => {
    const dir = at('damaged-page');
    await backUp(dir);
    const pack = listFiles(join(dir, 'databases', 'holdfast.db')).find((path) => path.endsWith('.pages'));
    const bytes = readFileSync(pack as string);
    const [victim] = small as [CanonicalNode];
    const place = bytes.indexOf(Buffer.from(victim.content));
    bytes[place + 900] = (bytes[place + 900] ?? 0) ^ 1;
    writeFileSync(pack as string, bytes);
    const { exitCode, stdout } = await check(dir);
    expect(exitCode).toBe(1);
    const verdict = JSON.parse(stdout);
    expect(verdict.damagedFiles).toEqual([expect.stringContaining('of holdfast.db')]);
    expect(verdict.damagedNodes).toEqual([expect.objectContaining({ hash: victim.hash })]);
    const restored = await runHoldfast(['restore', dir, '--data', at('page-restored')]);
    expect([restored.exitCode, restored.stderr]).toEqual([1, expect.stringContaining(victim.hash)]);
  });

  test('goes into no folder of something else, nor into the data', async () => {
    writeFileSync(at('file'), '');
    mkdirSync(at('others'));
    writeFileSync(join(at('others'), 'file'), '');
    expect((await runHoldfast(['backup', at('others'), '--data', running.data])).exitCode).toBe(1);
    expect(readdirSync(at('others'))).toEqual(['file']);
    for (const dir of [folder.path, running.data, join(running.data, 'backup')]) {
      const { exitCode, stderr } = await runHoldfast(['backup', dir, '--data', running.data]);
      expect([exitCode, stderr.trim().split('\n').length]).toEqual([1, 1]);
    }
    const missing = await runHoldfast(['backup', at('unmade'), '--data', at('nowhere')]);
    expect([missing.exitCode, existsSync(at('unmade')), existsSync(at('nowhere'))]).toEqual([
      1,
      false,
      false,
    ]);
  });
});

describe('a restore', () => {
  test('serves what was backed up, and nothing goes back', async () => {
    const dir = at('whole');
    const client = running.client();
    const before = (await client.roots('?limit=1')).json;
    const open = makeNode('never put');
    const { upload } = (await client.lease(open.hash)).json;
    await backUp(dir);
    const late = await client.commit('late', { [(small[0] as CanonicalNode).hash]: 1 });
    const data = at('restored');
    expect((await runHoldfast(['restore', dir, '--data', data, '--json'])).exitCode).toBe(0);
    const server = await startServer({ data });
    try {
      const restored = makeSpaceClient(server.url, APP, SPACE, running.issuer.token(SPACE));
      await isReadable(restored, [...small, ...large]);
      expect((await restored.usage()).nodeCount).toBe((await client.usage()).nodeCount);
      expect((await restored.roots()).json.revision).toBeGreaterThan(late.json.revision);
      const next = await restored.commit('next', { [(small[0] as CanonicalNode).hash]: 1 });
      expect(next.json.revision).toBe((await restored.roots()).json.revision);
      expect((await restored.roots(`?cursor=${before.nextCursor}`)).status).toBe(400);
      const url = new URL(upload.url);
      url.port = String(server.port);
      expect((await restored.put({ ...upload, url: url.href }, open.bytes)).status).toBe(403);
      // A domain that was unused when the backup was made.
      const other = makeSpaceClient(server.url, APP, 'other', running.issuer.token('other'));
      expect((await other.roots()).json.revision).toBeGreaterThan(late.json.revision);
      for (let pass = 0; pass < 3; pass += 1) expect((await restored.gc()).json.deleted).toBe(0);
    } finally {
      await server.end('SIGKILL');
    }
    const { stderr } = await runHoldfast(['restore', dir, '--data', data]);
    expect(stderr).toContain('not empty: it holds a data folder, perhaps of a restore that had finished');
  }, 900_000);

  test('that is killed starts no server, and begins anew with the same command', async () => {
    const dir = at('whole-again');
    await backUp(dir);
    let isUnfinishedSeen = false;
    for (let round = 0; round < 4; round += 1) {
      const data = at(`killed-${round}`);
      const child = Bun.spawn([HOLDFAST, 'restore', dir, '--data', data], {
        stdout: 'ignore',
        stderr: 'ignore',
      });
      const deadline = Date.now() + 20_000;
      while (!existsSync(join(data, 'UNFINISHED-RESTORE')) && Date.now() < deadline) await Bun.sleep(1);
      await Bun.sleep(round * 25);
      child.kill('SIGKILL');
      await child.exited;
      if (existsSync(join(data, 'UNFINISHED-RESTORE'))) {
        isUnfinishedSeen = true;
        const outcome = await tryStartServer({ data });
        if ('url' in outcome) throw new Error('a server took an unfinished restore');
        expect(outcome.stderr).toContain('unfinished restore');
        expect((await runHoldfast(['restore', dir, '--data', data])).exitCode).toBe(0);
      }
      const server = await startServer({ data });
      await server.end('SIGKILL');
    }
    expect(isUnfinishedSeen).toBe(true);
  }, 900_000);

  test('has the nodes that came in packs, and check names a node with a damaged record', async () => {
    const dir = at('packs');
    const nodes = Array.from({ length: 40 }, (_, index) => makeNode(`packed ${index} ${'y'.repeat(500)}`));
    const bulk = makeBulkClient(running.server.url, APP, SPACE, running.issuer.token(SPACE));
    const records = nodes.map((node, index) => (index % 2 === 0 ? plain(node) : packed(node)));
    const states = (await bulk.send(nodes, records)).json.results.map((one: { state: string }) => one.state);
    expect(new Set(states)).toEqual(new Set(['ready']));
    await backUp(dir);
    expect((await check(dir)).exitCode).toBe(0);
    const data = at('packs-restored');
    expect((await runHoldfast(['restore', dir, '--data', data])).exitCode).toBe(0);
    const server = await startServer({ data });
    try {
      const restored = makeSpaceClient(server.url, APP, SPACE, running.issuer.token(SPACE));
      await isReadable(restored, nodes);
      expect((await restored.usage()).readyStoredBytes).toBe(
        (await running.client().usage()).readyStoredBytes,
      );
    } finally {
      await server.end('SIGKILL');
    }
    const [victim] = nodes as [CanonicalNode];
    const pack = listFiles(dir).find((path) => readFileSync(path).includes(victim.bytes));
    if (pack === undefined) throw new Error('the backup does not have the pack');
    const bytes = readFileSync(pack);
    const last = bytes.indexOf(victim.bytes) + victim.bytes.length - 1;
    bytes[last] = (bytes[last] as number) ^ 1;
    writeFileSync(pack, bytes);
    const { exitCode, stdout } = await check(dir);
    expect(exitCode).toBe(1);
    expect(stdout).toContain(victim.hash);
    for (const other of nodes.slice(1)) expect(stdout).not.toContain(other.hash);
  }, 900_000);
});
