/** `serve --audit-log` on a real server. */
import { Database } from 'bun:sqlite';
import { afterAll, describe, expect, test } from 'bun:test';
import { existsSync, readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode } from './support/canonical-node.ts';
import { databasePath } from './support/embedded-files.ts';
import { operatorHeaders } from './support/operator-token.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { readPrinted } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

type Line = Record<string, unknown>;

const folder = makeTempFolder('audit-log');
const servers: RunningServer[] = [];
afterAll(async () => {
  await Promise.all(servers.map((each) => each.remove()));
  folder.remove();
});

async function start(name: string, path: string, ...more: string[]): Promise<RunningServer> {
  const running = await startFreshServer(name, { arguments: ['--audit-log', path, ...more] });
  servers.push(running);
  return running;
}

function linesOf(text: string): Line[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

function read(path: string): Line[] {
  return existsSync(path) ? linesOf(readFileSync(path, 'utf8')) : [];
}

/** The hashes of open uploads, read from the rows. */
function hashesOfUploads(data: string): string[] {
  const database = new Database(databasePath(data), { readonly: true });
  try {
    const rows = database.query<{ hash: Uint8Array }, []>('SELECT hash FROM uploads').all();
    return rows.map(({ hash }) => Buffer.from(hash).toString('hex'));
  } finally {
    database.close();
  }
}

const countOf = (lines: Line[]): number =>
  lines.reduce((sum, line) => sum + ((line.repeats as number) ?? 1), 0);

describe.concurrent('an audit log', () => {
  test('has a line for every change and refusal, and none for reads and renewals', async () => {
    const path = join(folder.path, 'changes.log');
    const running = await start('audit-changes', path);
    const token = running.issuer.token(SPACE, { sub: 'ann', jti: 'one' });
    const client = makeSpaceClient(running.server.url, APP, SPACE, token);
    const node = makeNode('audited');
    await client.store(node);
    await client.lease(node.hash);
    await client.metadata(node.hash);
    await client.metadata('0'.repeat(64));
    await client.commit('r1', { [node.hash]: 1 });
    await client.gc();
    const forged = `${token.slice(0, -8)}AAAAAAAA`;
    const refused = makeSpaceClient(running.server.url, APP, SPACE, forged);
    expect((await refused.lease(node.hash)).status).toBe(401);
    expect(
      (await makeSpaceClient(running.server.url, APP, 'elsewhere', token).metadata(node.hash)).status,
    ).toBe(403);
    await until(() => read(path).length >= 7);
    const lines = read(path);
    const named = {
      app: APP,
      space: SPACE,
      iss: running.issuer.issuer,
      sub: 'ann',
      jti: 'one',
      peer: '127.0.0.1',
    };
    expect(lines).toMatchObject([
      { ...named, operation: 'leaseNode', status: 200 },
      { app: APP, space: SPACE, operation: 'upload', status: 200, bytes: node.bytes.length },
      { ...named, operation: 'leaseNode', status: 200 },
      { ...named, operation: 'updateRootRefs', status: 200 },
      { ...named, operation: 'runGc', status: 200 },
      { ...named, operation: 'leaseNode', status: 401, error: 'invalid_token', verified: false },
      {
        ...named,
        space: 'elsewhere',
        operation: 'readMetadata',
        status: 403,
        error: 'resource_scope_mismatch',
      },
    ]);
    for (const line of lines) {
      expect(line.time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(line.requestId).toMatch(/^[0-9a-f-]{36}$/);
      expect(typeof line.ms).toBe('number');
      if (line.status === 200) expect(line).not.toHaveProperty('verified');
    }
    const text = readFileSync(path, 'utf8');
    for (const part of [...token.split('.'), ...forged.split('.'), '/uploads/'])
      expect(text).not.toContain(part);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test('counts reads and renewals too if asked to', async () => {
    const running = await start('audit-reads', '-', '--audit-reads');
    const client = running.client();
    const node = makeNode('read');
    await client.store(node);
    await client.lease(node.hash);
    for (let index = 0; index < 50; index += 1) await client.metadata(node.hash);
    const lines = (): Line[] =>
      linesOf(running.server.output().replace(/^holdfast listening.*\n(?:operators:.*\n)?/, ''));
    const reads = (): Line[] => lines().filter(({ operation }) => operation === 'readMetadata');
    await until(() => running.server.output().endsWith('\n') && countOf(reads()) === 50);
    expect(reads().length).toBeLessThan(50);
    expect(countOf(lines().filter(({ operation }) => operation === 'leaseNode'))).toBe(3);
  });

  test('of several workers has whole lines, and is reopened after SIGHUP', async () => {
    const path = join(folder.path, 'workers.log');
    const operators = ['--operator-listen', '127.0.0.1:0'];
    const running = await start('audit-workers', path, '--workers', '2', ...operators);
    const client = makeSpaceClient(running.server.url, APP, SPACE, running.issuer.token(SPACE), false);
    const change = () =>
      Promise.all(Array.from({ length: 50 }, () => client.lease(makeNode(crypto.randomUUID()).hash)));
    await change();
    await until(() => read(path).length === 50);
    renameSync(path, `${path}.1`);
    process.kill(running.server.pid, 'SIGHUP');
    await change();
    await until(() => read(path).length === 50);
    expect(read(`${path}.1`)).toHaveLength(50);
    // Operators are shown the lines of all workers, the newest first.
    const url = await readPrinted(running.server, /^operators: (\S+)\n/m);
    const written = [...read(`${path}.1`), ...read(path)].map(({ requestId }) => requestId);
    let shown: Line[] = [];
    // A worker that is busy for a second is left out.
    await until(async () => {
      shown = (
        await (
          await fetch(`${url}/operator/v1/audit?limit=1000`, { headers: operatorHeaders(running.data) })
        ).json()
      ).lines;
      return shown.length >= written.length;
    });
    expect(shown.map(({ requestId }) => requestId).toSorted()).toEqual(written.toSorted());
    const times = shown.map(({ time }) => time);
    expect(times).toEqual(times.toSorted().reverse());
    expect(running.server.isRunning()).toBe(true);
  });

  test('on a full disk stops nobody', async () => {
    const running = await start('audit-full', '/dev/full');
    for (let index = 0; index < 3; index += 1) await running.client().store(makeNode(`full ${index}`));
    await until(() => running.server.log().includes('the audit log cannot be written'));
  });

  test('that is required stops changes while it fails, and neither reads nor renewals', async () => {
    const path = join(folder.path, 'required.log');
    const running = await start('audit-required', path, '--audit-required');
    const node = makeNode('required');
    await running.client().store(node);
    const client = running.client();
    const [pending, lost] = [makeNode('opened before'), makeNode('never acknowledged')];
    const opened = await client.lease(pending.hash);
    Bun.spawnSync(['sh', '-c', `rm ${path} && ln -s /dev/full ${path}`]);
    const answer = await client.lease(lost.hash);
    expect(answer).toMatchObject({ status: 503, json: { error: 'SERVICE_UNAVAILABLE' } });
    expect(answer.json.message).toContain('audit log');
    expect((await client.lease(makeNode('not begun').hash)).status).toBe(503);
    expect((await client.commit('r1', { [node.hash]: 1 })).status).toBe(503);
    expect((await client.lease(node.hash)).status).toBe(200);
    expect((await client.metadata(node.hash)).status).toBe(200);
    const { upload } = (await client.lease(lost.hash)).json;
    expect(upload).toBeUndefined();
    expect((await client.put(opened.json.upload, pending.bytes)).status).toBe(503);
    Bun.spawnSync(['rm', path]);
    await until(async () => (await client.commit('r2', { [node.hash]: 1 })).status === 200);
    // Changes that came after the first failed line were not begun; the first one was, because nobody knew yet.
    expect((await client.commit('r1', { [node.hash]: 1 })).json).toMatchObject({ idempotent: false });
    expect(hashesOfUploads(running.data).toSorted()).toEqual([lost.hash, pending.hash].toSorted());
    expect((await client.put(opened.json.upload, pending.bytes)).status).toBe(200);
    expect(read(path)[0]).toMatchObject({ operation: 'audit.lost' });
  });
});
