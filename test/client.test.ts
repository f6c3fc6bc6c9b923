/** The SDK against the real server: from its sources on Bun, and as the built package on Node. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CasError, type Client, type ClientOptions, createClient } from '../packages/client/index.ts';
import { seededBytes } from './support/canonical-node.ts';
import { resultOf } from './support/command-result.ts';
import { installSdk } from './support/installed-sdk.ts';
import { APP, type RunningServer, startFreshServer } from './support/running-server.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const NODE_BYTES_MAX = 6 * 1024 * 1024;
/** Short enough to wait for: of the server of one test. */
const SHORT_UPLOAD_TTL_MS = 2_000;

let running: RunningServer;

beforeAll(async () => {
  running = await startFreshServer('client', { arguments: ['--max-node-bytes', String(NODE_BYTES_MAX)] });
});
afterAll(() => running.remove());

/** Each test has a Space of its own. */
function connect(spaceId: string, options: Partial<ClientOptions> = {}, to = running): Client {
  const token = to.issuer.token(spaceId);
  return createClient({ baseUrl: to.server.url, appId: APP, spaceId, token, ...options });
}

async function failureOf(promise: Promise<unknown>): Promise<CasError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof CasError)) throw new Error(`not a CasError: ${String(error)}`);
  return error;
}

describe('the SDK and the server', () => {
  test('a two-level DAG from upload to collection', async () => {
    const client = connect('walk');
    const text = { contentType: 'text/plain', content: 'hello' };
    const child = await connect('elsewhere').putNode(text);
    expect(child.state).toBe('ready');
    const parent = { contentType: 'application/json', content: '{}', refs: [child.hash, child.hash] };

    const waiting = await client.putNode(parent);
    expect(waiting).toMatchObject({
      state: 'validated_awaiting_children',
      childHashes: [child.hash],
      uploaded: true,
    });
    expect(await client.getUsage()).toMatchObject({ nodeCount: 1, notReadyNodeCount: 1 });
    expect(await client.putNode(text)).toMatchObject({ state: 'ready', hash: child.hash, uploaded: true });
    const ready = await client.putNode(parent);
    expect(ready).toMatchObject({ state: 'ready', hash: waiting.hash, uploaded: false });

    const node = await client.getNode(ready.hash);
    expect(node.metadata).toEqual({
      hash: ready.hash,
      size: 2,
      contentType: 'application/json',
      refs: [child.hash, child.hash],
    });
    expect((await client.readMetadata(child.hash)).state.childRefCount).toBe(2);
    const part = await client.readContent(child.hash, { range: { suffix: 3 } });
    expect([part.start, part.end, part.size, await new Response(part.body).text()]).toEqual([2, 5, 5, 'llo']);
    expect((await failureOf(client.readContent(child.hash, { range: { first: 5 } }))).status).toBe(416);

    const commit = { requestId: 'root', changes: { [ready.hash]: 1 } };
    expect(await client.updateRootRefs(commit)).toEqual({ success: true, idempotent: false, revision: 1 });
    expect(await client.updateRootRefs(commit)).toEqual({ success: true, idempotent: true, revision: 1 });
    expect((await failureOf(client.updateRootRefs({ ...commit, changes: { [ready.hash]: 2 } }))).code).toBe(
      'IDEMPOTENCY_CONFLICT',
    );
    expect(await client.runGc({ maxNodes: 10 })).toEqual({
      examined: 0,
      deleted: 0,
      reclaimedContentBytes: 0,
    });
    expect((await client.leaseNode(ready.hash, { leaseDurationMs: 7_200_000 })).state).toBe('ready');
    expect(await client.health()).toEqual({ status: 'ok' });
  });

  test('content of any size comes back as it went', async () => {
    const client = connect('sizes');
    for (const size of [0, 1, 65_536, 5 * 1024 * 1024]) {
      const content = seededBytes(size, size + 1);
      const { hash } = await client.putNode({ contentType: 'a/b', content });
      expect(Buffer.compare((await client.getNode(hash)).content, content)).toBe(0);
      const { body } = await client.openNode(hash);
      expect(Buffer.compare(await new Response(body).bytes(), content)).toBe(0);
    }
  });

  test('stores one node that many put at once', async () => {
    const content = seededBytes(200_000, 3);
    const puts = Array.from({ length: 12 }, () => connect('race').putNode({ contentType: 'a/b', content }));
    const results = await Promise.all(puts);
    expect(results.map(({ state }) => state)).toEqual(Array(12).fill('ready'));
    expect(await connect('race').getUsage()).toMatchObject({ nodeCount: 1, readyContentBytes: 200_000 });
  });

  test('an upload that starts too late gets another instruction', async () => {
    const hasty = await startFreshServer('client-late', {
      arguments: ['--upload-ttl', `${SHORT_UPLOAD_TTL_MS}ms`],
    });
    let puts = 0;
    const fetchLate: ClientOptions['fetch'] = async (url, init) => {
      if (init.method === 'PUT' && ++puts === 1) await Bun.sleep(SHORT_UPLOAD_TTL_MS + 200);
      return fetch(url, init);
    };
    try {
      const client = connect('late', { fetch: fetchLate }, hasty);
      expect((await client.putNode({ contentType: 'a/b', content: 'late' })).state).toBe('ready');
      // A third one if the machine is so busy that the second upload starts too late as well.
      expect(puts).toBeGreaterThanOrEqual(2);
    } finally {
      await hasty.remove();
    }
  });

  test('bytes damaged on the way are sent again', async () => {
    let puts = 0;
    const fetchDamaged: ClientOptions['fetch'] = (url, init) => {
      if (init.method !== 'PUT' || ++puts > 1) return fetch(url, init);
      const body = new Uint8Array(init.body as Uint8Array);
      body[body.length - 1] = (body[body.length - 1] as number) ^ 1;
      return fetch(url, { ...init, body });
    };
    const client = connect('damage', { fetch: fetchDamaged });
    expect((await client.putNode({ contentType: 'a/b', content: 'damage' })).state).toBe('ready');
    expect(puts).toBe(2);
  });

  test('a connection that breaks in the middle of content is taken up again', async () => {
    const content = seededBytes(3_000_000, 5);
    let broken = 0;
    const fetchBroken: ClientOptions['fetch'] = async (url, init) => {
      const response = await fetch(url, init);
      if (!url.endsWith('/content') || ++broken > 2) return response;
      let left = 1_000_000;
      const cut = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          left -= chunk.length;
          if (left < 0) controller.error(new TypeError('planted reset'));
          else controller.enqueue(chunk);
        },
      });
      return new Response(response.body?.pipeThrough(cut), response);
    };
    const client = connect('broken', { fetch: fetchBroken });
    const { hash } = await client.putNode({ contentType: 'a/b', content });
    expect(Buffer.compare((await client.getNode(hash)).content, content)).toBe(0);
    expect(broken).toBe(3);
  });

  test('a node over the limit is told as such', async () => {
    const content = new Uint8Array(NODE_BYTES_MAX);
    expect((await failureOf(connect('large').putNode({ contentType: 'a/b', content }))).code).toBe(
      'NODE_TOO_LARGE',
    );
  });

  test('pages of root refs stay at one revision while others commit', async () => {
    const client = connect('roots');
    const hashes = await Promise.all(
      Array.from({ length: 7 }, async (_, index) => {
        return (await client.putNode({ contentType: 'a/b', content: `root ${index}` })).hash;
      }),
    );
    const all = (delta: number) => Object.fromEntries(hashes.map((hash) => [hash, delta]));
    await client.updateRootRefs({ requestId: 'first', changes: all(2) });
    const seen: string[] = [];
    for await (const page of client.rootRefs({ limit: 3 })) {
      expect([page.revision, page.refDomain]).toEqual([1, 'test']);
      seen.push(...page.items.map(({ hash, refCount }) => `${hash} ${refCount}`));
      await client
        .updateRootRefs({ requestId: `after ${seen.length}`, changes: all(-1) })
        .catch(() => undefined);
    }
    expect(seen).toEqual(hashes.toSorted().map((hash) => `${hash} 2`));
  });

  test('follows no redirect, so that the capability stays with its address', async () => {
    let followed = 0;
    const other = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response(`${++followed}`) });
    const location = `http://127.0.0.1:${other.port}/`;
    const redirecting = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => new Response(null, { status: 307, headers: { location } }),
    });
    try {
      const client = connect('redirect', { baseUrl: `http://127.0.0.1:${redirecting.port}` });
      expect((await failureOf(client.getUsage())).message).toContain('redirect');
      expect(followed).toBe(0);
    } finally {
      await Promise.all([redirecting.stop(true), other.stop(true)]);
    }
  });

  test('what the server refuses is a CasError', async () => {
    const absent = 'f'.repeat(64);
    const client = connect('refused');
    expect((await failureOf(client.getNode(absent))).code).toBe('NOT_FOUND');
    expect((await failureOf(client.runGc({ maxNodes: 0 }))).code).toBe('INVALID_ARGUMENT');
    expect((await failureOf(client.listRootRefs({ cursor: 'forged' }))).code).toBe('INVALID_REQUEST');
    const other = connect('refused', { token: running.issuer.token('other') });
    expect((await failureOf(other.getUsage())).code).toBe('resource_scope_mismatch');
    const reader = connect('refused', { token: running.issuer.token('refused', { permissions: [] }) });
    expect((await failureOf(reader.getUsage())).code).toBe('insufficient_permission');
    const stale = connect('refused', { token: running.issuer.token('refused', { exp: 1 }) });
    expect(await failureOf(stale.getUsage())).toMatchObject({ code: 'invalid_token', status: 401 });
    const nobody = connect('refused', {
      baseUrl: 'http://127.0.0.1:1',
      retry: { attemptsMax: 2, delayMsBase: 1 },
    });
    expect((await failureOf(nobody.getUsage())).code).toBe('CONNECTION_FAILED');
  });
});

/** A program of a user, in JavaScript, on Node. Prints one line of JSON. */
const PROGRAM = `
import { CasError, createClient } from '@holdfast/client';
const { HOLDFAST_URL: baseUrl, HOLDFAST_APP: appId, HOLDFAST_SPACE: spaceId } = process.env;
const client = createClient({ baseUrl, appId, spaceId, token: () => process.env.HOLDFAST_TOKEN });
const content = new Uint8Array(3_000_000).map((_, index) => index * 7);
const put = await client.putNode({ contentType: 'a/b', content });
const whole = await client.getNode(put.hash);
let length = 0;
for await (const chunk of (await client.openNode(put.hash)).body) length += chunk.length;
const blob = await client.putNode({ contentType: 'a/b', content: new Blob([content]) });
const tooLarge = await client.putNode({ contentType: 'a/b', content: new Uint8Array(+process.env.NODE_BYTES_MAX) }).catch((error) => error);
const aborted = await client.getNode(put.hash, { signal: AbortSignal.abort() }).catch((error) => error);
console.log(JSON.stringify({
  states: [put.state, put.uploaded, blob.uploaded],
  same: Buffer.compare(whole.content, content) === 0,
  length,
  tooLarge: [tooLarge instanceof CasError, tooLarge.code],
  aborted: aborted.name,
  health: await client.health(),
}));
`;

interface ProgramResult {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

describe('the built package', () => {
  const folder = makeTempFolder('client-package');
  beforeAll(() => installSdk(folder.path), 300_000);
  afterAll(() => folder.remove());

  /** Runs `source` on Node, with the variables that `serve --dev` prints. */
  async function runOnNode(name: string, source: string, spaceId: string): Promise<ProgramResult> {
    const path = join(folder.path, name);
    writeFileSync(path, source);
    const child = Bun.spawn(['node', path], {
      env: {
        PATH: process.env.PATH,
        NODE_BYTES_MAX: String(NODE_BYTES_MAX),
        HOLDFAST_URL: running.server.url,
        HOLDFAST_APP: APP,
        HOLDFAST_SPACE: spaceId,
        HOLDFAST_TOKEN: running.issuer.token(spaceId),
      },
      stdout: 'pipe',
      stderr: 'pipe',
    });
    return resultOf(child);
  }

  test('works on Node', async () => {
    const { stdout, stderr } = await runOnNode('program.mjs', PROGRAM, 'node');
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toEqual({
      states: ['ready', true, false],
      same: true,
      length: 3_000_000,
      tooLarge: [true, 'NODE_TOO_LARGE'],
      aborted: 'AbortError',
      health: { status: 'ok' },
    });
  });
});
