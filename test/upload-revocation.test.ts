/** Upload URLs of a revoked token, or of a suspended or removed App, in every process of a server. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { type CanonicalNode, makeNode } from './support/canonical-node.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { addApp, runHoldfast } from './support/server-process.ts';
import { makeSpaceClient } from './support/space-client.ts';
import { until } from './support/until.ts';

const TEST_MS_MAX = 300_000;
/** Enough that both workers have answered. */
const ASKED = 12;

interface Upload {
  readonly url: string;
  readonly headers: Record<string, string>;
}

let running: RunningServer;
beforeAll(async () => {
  running = await startFreshServer('upload-revocation', { arguments: ['--workers', '2'] });
}, TEST_MS_MAX);
afterAll(() => running.remove());

async function administer(...args: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await runHoldfast(['app', ...args, '--data', running.data]);
  expect([exitCode, stderr]).toEqual([0, '']);
}

const clientOf = (claims: Record<string, unknown>) =>
  makeSpaceClient(running.server.url, APP, SPACE, running.issuer.token(SPACE, claims), false);

async function leaseNode(claims: Record<string, unknown>, node: CanonicalNode): Promise<Upload> {
  const { status, json } = await clientOf(claims).lease(node.hash);
  expect([status, json.state]).toEqual([200, 'awaiting_upload']);
  return json.upload;
}

async function leasePack(claims: Record<string, unknown>, node: CanonicalNode): Promise<Upload> {
  const path = `/bulk/v1/apps/${APP}/spaces/${SPACE}/leases`;
  const answer = await fetch(`${running.server.url}${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${running.issuer.token(SPACE, claims)}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ hashes: [node.hash], leaseDurationMs: 60_000, pack: true }),
  });
  expect(answer.status).toBe(200);
  return (await answer.json()).pack;
}

const put = (upload: Upload, body: Uint8Array): Promise<Response> =>
  fetch(upload.url, {
    method: 'PUT',
    keepalive: false,
    headers: upload.headers,
    body: body as Uint8Array<ArrayBuffer>,
  });

/** A PUT without its headers is refused in any case, and changes nothing: the words say why. */
async function refusalsOf(upload: Upload): Promise<readonly string[]> {
  const answers = await Promise.all(
    Array.from({ length: ASKED }, () =>
      put({ ...upload, headers: { 'content-type': 'a/b' } }, new Uint8Array(1)),
    ),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(ASKED).fill(403));
  return Promise.all(answers.map(async (answer) => (await answer.json()).message as string));
}

const untilRefused = (upload: Upload, why: string): Promise<unknown> =>
  until(async () => (await refusalsOf(upload)).every((message) => message.includes(why)));

test.each<[string, Record<string, unknown>, Record<string, unknown>, readonly string[]]>([
  ['a subject', { sub: 'eve' }, { sub: 'bob' }, ['--sub', 'eve']],
  ['one token', { sub: 'ann', jti: 'one' }, { sub: 'ann', jti: 'two' }, ['--jti', 'one']],
])(
  'a revocation of %s reaches the URLs that were given to it, of nodes and packs',
  async (name, revoked, other, flags) => {
    const nodes = ['a', 'b', 'c', 'd'].map((letter) => makeNode(`${name} ${letter}`));
    const [a, b, c, d] = nodes as [CanonicalNode, CanonicalNode, CanonicalNode, CanonicalNode];
    const node = await leaseNode(revoked, a);
    const pack = await leasePack(revoked, b);
    const kept = [await leaseNode(other, c), await leaseNode({}, d)] as const;
    for (const { url } of [node, pack]) {
      const payload = Buffer.from(new URL(url).pathname.split('/').at(-1)?.split('.')[0] ?? '', 'base64url');
      expect(payload.toString()).not.toMatch(/eve|ann|one/);
    }
    await administer('revoke', APP, ...flags);
    for (const upload of [node, pack]) await untilRefused(upload, 'revoked');
    const refused = await put(node, a.bytes);
    expect([refused.status, (await refused.json()).error]).toEqual([403, 'FORBIDDEN']);
    expect((await put(pack, new Uint8Array(8))).status).toBe(403);
    expect((await put(kept[0], c.bytes)).status).toBe(200);
    expect((await put(kept[1], d.bytes)).status).toBe(200);
    await administer('revoke', APP, ...flags, '--lift');
    await until(async () => (await refusalsOf(node)).every((message) => message.includes('headers')));
    expect((await put(node, a.bytes)).status).toBe(200);
  },
  TEST_MS_MAX,
);

test(
  'while an App is suspended or removed none of its URLs is good',
  async () => {
    const node = makeNode('of a suspended App');
    const upload = await leaseNode({}, node);
    await administer('suspend', APP);
    await untilRefused(upload, 'suspended or removed');
    expect((await put(upload, node.bytes)).status).toBe(403);
    await administer('remove', APP);
    await untilRefused(upload, 'suspended or removed');
    await addApp(running.data, APP, running.issuer);
    await until(async () => (await refusalsOf(upload)).every((message) => message.includes('headers')));
    expect((await put(upload, node.bytes)).status).toBe(200);
  },
  TEST_MS_MAX,
);
