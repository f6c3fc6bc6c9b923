/** Tokens that end while a client works with a real server. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, createTokenSource, type TokenSource } from '../packages/client/index.ts';
import { startCountingProxy } from './support/counting-proxy.ts';
import { APP, type RunningServer, SPACE, startFreshServer } from './support/running-server.ts';
import { runHoldfast } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';

let running: RunningServer;
const folder = makeTempFolder('token-renewal');

beforeAll(async () => {
  running = await startFreshServer('token-renewal');
});
afterAll(async () => {
  await running?.remove();
  folder.remove();
});

/** Past the tolerance for clocks. */
function makeEndedToken(): string {
  const now = Math.floor(Date.now() / 1_000);
  return running.issuer.token(SPACE, { iat: now - 3_600, exp: now - 60 });
}

function connect(token: string | TokenSource) {
  return createClient({ baseUrl: running.server.url, appId: APP, spaceId: SPACE, token });
}

test('a hundred requests whose token has ended are all answered, after one renewal', async () => {
  const ended = makeEndedToken();
  let renewals = 0;
  const source = createTokenSource({
    renew: () => {
      renewals += 1;
      return running.issuer.token(SPACE);
    },
  });
  // As after sleep: each request has gone out with the old token before the first is refused.
  const token: TokenSource = (refused) => (refused === undefined && renewals === 0 ? ended : source(refused));
  const client = connect(token);
  const puts = Array.from({ length: 100 }, (_, index) =>
    client.putNode({ contentType: 'text/plain', content: `node ${index}` }),
  );
  expect((await Promise.all(puts)).map(({ state }) => state)).toEqual(Array(100).fill('ready'));
  expect(renewals).toBe(1);
  expect(connect(ended).getUsage()).rejects.toMatchObject({ status: 401, code: 'invalid_token' });
});

test('a token that the server refuses is renewed before its end', async () => {
  const tokens = [running.issuer.token(SPACE, { aud: 'another' }), running.issuer.token(SPACE)];
  const client = connect(createTokenSource({ renew: () => tokens.shift() ?? '' }));
  expect((await client.getUsage()).nodeCount).toBeGreaterThanOrEqual(0);
  expect(tokens).toEqual([]);
});

test('--token-file is read again at once if the server refuses its token', async () => {
  const file = join(folder.path, 'token');
  writeFileSync(file, makeEndedToken(), { mode: 0o600 });
  const proxy = startCountingProxy(running.server.url);
  let asked = 0;
  proxy.onRequest = (_, moment) => {
    if (moment === 'asked') asked += 1;
    // The first request is on its way with the old token when the new one is written.
    if (asked === 1) writeFileSync(file, running.issuer.token(SPACE));
  };
  const environment = { HOLDFAST_URL: proxy.url, HOLDFAST_APP: APP, HOLDFAST_SPACE: SPACE };
  try {
    const { exitCode, stderr } = await runHoldfast(['usage', '--token-file', file], { environment });
    expect([exitCode, stderr]).toEqual([0, '']);
    expect(proxy.passed.map(({ status }) => status)).toEqual([401, 200]);
    writeFileSync(file, makeEndedToken());
    proxy.forget();
    expect((await runHoldfast(['usage', '--token-file', file], { environment })).exitCode).toBe(1);
    expect(proxy.passed.map(({ status }) => status)).toEqual([401]);
  } finally {
    await proxy.close();
  }
});
