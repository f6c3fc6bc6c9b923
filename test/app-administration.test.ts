/** Changes of the registry while servers run: each takes effect within 5 s in every process. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Issuer, makeIssuer } from './support/issuer.ts';
import { addApp, runHoldfast, type ServerProcess, startServer } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

const EFFECT_MS_MAX = 5000;
/** The margin for a busy machine. A change that the server never reads again never takes effect. */
const BUSY_MS = 60_000;
const TEST_MS_MAX = 300_000;
/** Fresh connections in a row that must agree: with two processes on one port both have answered. */
const AGREEING_ANSWERS = 24;

const folder = makeTempFolder('administration');
const data = join(folder.path, 'data');
let server: ServerProcess;

beforeAll(async () => {
  mkdirSync(data);
  server = await startServer({ data, arguments: ['--workers', '2'] });
});
afterAll(async () => {
  await server.end('SIGTERM');
  folder.remove();
});

/** `ok`, or the code of the refusal, over a connection of its own. */
async function ask(appId: string, token: string): Promise<string> {
  const answer = await fetch(`${server.url}/v1/apps/${appId}/spaces/space/cas/usage`, {
    headers: { authorization: `Bearer ${token}`, connection: 'close' },
  });
  const body = (await answer.json()) as { error?: string };
  return answer.status === 200 ? 'ok' : `${answer.status} ${body.error}`;
}

/** Resolves once every process gives the answer; throws what they gave instead when the time is up. */
async function expectEffect(appId: string, token: string, expected: string): Promise<void> {
  const deadline = performance.now() + EFFECT_MS_MAX + BUSY_MS;
  for (;;) {
    const answers = new Set<string>();
    const askedAt = performance.now();
    for (let at = 0; at < AGREEING_ANSWERS; at++) answers.add(await ask(appId, token));
    if (answers.size === 1 && answers.has(expected)) return;
    if (askedAt > deadline) throw new Error(`${expected} expected, got ${[...answers].join(', ')}`);
    await Bun.sleep(50);
  }
}

async function administer(...args: readonly string[]): Promise<void> {
  const { exitCode, stderr } = await runHoldfast(['app', ...args, '--data', data]);
  expect([exitCode, stderr]).toEqual([0, '']);
}

/** The flags that register `issuer` with the key set in `file`. */
function registration(issuer: Issuer, ...keys: readonly string[]): string[] {
  return ['--issuer', issuer.issuer, '--audience', issuer.audience, ...keys];
}

describe('an App of a running server', () => {
  test(
    'is known to every process as soon as it is added',
    async () => {
      const issuer = makeIssuer('https://at-once.test');
      await addApp(data, 'at-once', issuer);
      for (let at = 0; at < AGREEING_ANSWERS; at++) {
        expect(await ask('at-once', issuer.token('space'))).toBe('ok');
      }
    },
    TEST_MS_MAX,
  );

  test(
    'is added, suspended, resumed, removed and added again',
    async () => {
      const issuer = makeIssuer('https://life.test');
      const token = issuer.token('space');
      expect(await ask('life', token)).toBe('401 unknown_issuer');
      await addApp(data, 'life', issuer);
      await expectEffect('life', token, 'ok');
      await administer('suspend', 'life');
      await expectEffect('life', token, '403 APP_SUSPENDED');
      await administer('resume', 'life');
      await expectEffect('life', token, 'ok');
      await administer('remove', 'life');
      await expectEffect('life', token, '401 unknown_issuer');
      await addApp(data, 'life', issuer);
      await expectEffect('life', token, 'ok');
    },
    TEST_MS_MAX,
  );

  test(
    'refuses tokens that are revoked, in every process, until that is lifted',
    async () => {
      const issuer = makeIssuer('https://revoked.test');
      await addApp(data, 'revoked', issuer);
      const [one, ann, bob] = [{ jti: 'one' }, { sub: 'ann' }, { sub: 'bob', jti: 'other' }].map((claims) =>
        issuer.token('space', claims),
      ) as [string, string, string];
      for (const token of [one, ann, bob]) await expectEffect('revoked', token, 'ok');
      await administer('revoke', 'revoked', '--jti', 'one');
      await expectEffect('revoked', one, '401 invalid_token');
      await administer('revoke', 'revoked', '--sub', 'ann');
      await expectEffect('revoked', ann, '401 invalid_token');
      await expectEffect('revoked', issuer.token('space', { sub: 'ann', jti: 'new' }), '401 invalid_token');
      await expectEffect('revoked', bob, 'ok');
      await administer('revoke', 'revoked', '--jti', 'one', '--lift');
      await administer('revoke', 'revoked', '--sub', 'ann', '--lift');
      await expectEffect('revoked', one, 'ok');
      await expectEffect('revoked', ann, 'ok');
    },
    TEST_MS_MAX,
  );

  test(
    'loses its old keys when they are replaced',
    async () => {
      const before = makeIssuer('https://rotated.test');
      const after = makeIssuer('https://rotated.test');
      await addApp(data, 'rotated', before);
      await expectEffect('rotated', before.token('space'), 'ok');
      const file = join(folder.path, 'after.json');
      after.writeKeySet(file);
      await administer('add', 'rotated', ...registration(after, '--jwks-file', file), '--replace');
      await expectEffect('rotated', after.token('space'), 'ok');
      expect(await ask('rotated', before.token('space'))).toBe('401 invalid_token');
    },
    TEST_MS_MAX,
  );
});

describe('an App whose keys are behind a URL', () => {
  test(
    'follows the key set, survives a short outage, and answers 503 without a copy',
    async () => {
      const before = makeIssuer('https://remote.test');
      const after = makeIssuer('https://remote.test');
      const keySets = [before, after].map((issuer, at) => {
        const file = join(folder.path, `remote-${at}.json`);
        issuer.writeKeySet(file);
        return readFileSync(file, 'utf8');
      });
      let answer = (): Response => new Response('down', { status: 500 });
      const keyServer = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => answer() });
      try {
        const url = `http://127.0.0.1:${keyServer.port}/jwks.json`;
        await administer('add', 'remote', ...registration(before, '--jwks-url', url));
        await expectEffect('remote', before.token('space'), '503 registry_unavailable');
        answer = () => new Response(keySets[0]);
        await expectEffect('remote', before.token('space'), 'ok');
        answer = () => new Response(keySets[1]);
        await expectEffect('remote', before.token('space'), '401 invalid_token');
        expect(await ask('remote', after.token('space'))).toBe('ok');
        await keyServer.stop(true);
        await Bun.sleep(EFFECT_MS_MAX + 1000);
        expect(await ask('remote', after.token('space'))).toBe('ok');
      } finally {
        await keyServer.stop(true);
      }
    },
    TEST_MS_MAX,
  );
});

test(
  'a token of the command line opens what it names, and nothing else',
  async () => {
    const [key, jwks] = [join(folder.path, 'private.jwk'), join(folder.path, 'public.json')];
    expect((await runHoldfast(['key', 'new', '--out', key, '--jwks', jwks])).exitCode).toBe(0);
    await administer('add', 'minted', '--issuer', 'minted', '--audience', 'a', '--jwks-file', jwks);
    const mint = async (...args: readonly string[]): Promise<string> => {
      const { exitCode, stdout } = await runHoldfast(['token', '--key', key, '--issuer', 'minted', ...args]);
      expect(exitCode).toBe(0);
      return stdout.trim();
    };
    const rest = ['--space', 'space', '--permission', 'cas:usage:read'];
    await expectEffect('minted', await mint('--audience', 'a', ...rest), 'ok');
    expect(await ask('minted', await mint('--audience', 'a', ...rest, '--ttl', '24h'))).toBe('ok');
    expect(await ask('minted', await mint('--audience', 'a', ...rest, '--ttl', '25h'))).toBe(
      '401 invalid_token',
    );
    expect(await ask('minted', await mint('--audience', 'b', ...rest))).toBe('401 invalid_token');
    expect(await ask('other', await mint('--audience', 'a', ...rest))).toBe('403 resource_scope_mismatch');
    const elsewhere = await mint('--audience', 'a', '--space', 'x', '--permission', 'cas:usage:read');
    expect(await ask('minted', elsewhere)).toBe('403 resource_scope_mismatch');
    const reader = await mint('--audience', 'a', '--space', 'space', '--permission', 'cas:nodes:read');
    expect(await ask('minted', reader)).toBe('403 insufficient_permission');
  },
  TEST_MS_MAX,
);
