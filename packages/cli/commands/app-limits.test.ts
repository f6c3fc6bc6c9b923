/** `holdfast app set` and `holdfast app revoke` as a process, without a server. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { mkdirSync } from 'node:fs';
import { Workplace } from '../test/run-holdfast-fixture.ts';

let place: Workplace;
beforeEach(async () => {
  place = new Workplace();
  mkdirSync(place.path('holdfast-data'));
  const rest = ['--issuer', 'https://i.test', '--audience', 'aud', '--jwks-url', 'https://i.test/jwks'];
  await place.print('app', 'add', 'demo', ...rest, '--max-token-lifetime', '1h');
});
afterEach(() => place.remove());

async function read(): Promise<Record<string, unknown>> {
  return JSON.parse(await place.print('app', 'list', '--json'))[0] as Record<string, unknown>;
}

const NONE = { maxBytes: null, maxNodes: null, maxCommits: null };

test('a new App has no limits, and nothing stored', async () => {
  expect(await read()).toMatchObject({
    keys: { kind: 'url', url: 'https://i.test/jwks' },
    quotas: NONE,
    spaceQuotas: [],
    usage: { spaces: 0, nodeCount: 0, readyStoredBytes: 0, reservedBytes: 0 },
    revocations: [],
  });
});

describe('app set', () => {
  test('sets each limit, keeps the other, and lifts with none', async () => {
    expect(await place.print('app', 'set', 'demo', '--max-bytes', '1GiB')).toBe(
      'App "demo" may store at most 1.0 GiB\n',
    );
    await place.print('app', 'set', 'demo', '--max-nodes', '1000');
    expect((await read()).quotas).toEqual({ ...NONE, maxBytes: 2 ** 30, maxNodes: 1000 });
    expect(await place.print('app', 'list')).toContain('0 B of 1.0 GiB, 0 of 1,000 nodes');
    expect(await place.print('app', 'set', 'demo', '--max-bytes', 'none', '--max-nodes', 'none')).toBe(
      'App "demo" may store without a limit\n',
    );
    expect((await read()).quotas).toEqual(NONE);
  });

  test('limits one Space', async () => {
    const printed = await place.print('app', 'set', 'demo', '--space', 's', '--max-nodes', '0', '--json');
    const expected = { quotas: NONE, spaceQuotas: [{ space: 's', ...NONE, maxNodes: 0 }] };
    expect(JSON.parse(printed)).toMatchObject(expected);
    expect(await read()).toMatchObject(expected);
  });

  test.each<[1 | 2, readonly string[], string]>([
    [2, ['demo'], '--max-bytes'],
    [2, ['demo', '--max-bytes', '-1'], '--max-bytes'],
    [2, ['demo', '--max-bytes', '10 parsecs'], '--max-bytes'],
    [2, ['demo', '--max-nodes', '1.5'], 'whole number'],
    [2, ['demo', '--max-nodes', '1', '--space', '..'], '--space'],
    [2, ['--max-nodes', '1'], 'APP-ID'],
    [1, ['nobody', '--max-nodes', '1'], 'there is no App "nobody"'],
  ])('ends with %p for %p', async (code, args, reason) => {
    expect(await place.fail(code, 'app', 'set', ...args)).toContain(reason);
    expect((await read()).quotas).toEqual(NONE);
  });
});

describe('app revoke', () => {
  test('revokes as long as a token may live, or until a time, and lifts', async () => {
    const startedAt = Date.now();
    expect(await place.print('app', 'revoke', 'demo', '--sub', 'eve')).toMatch(
      /^tokens of App "demo" with the sub "eve" are refused until 20[-0-9T:.]+Z\n$/,
    );
    const [{ until } = { until: 0 }] = (await read()).revocations as { until: number }[];
    expect(until).toBeGreaterThanOrEqual(startedAt + 3_600_000);
    expect(until).toBeLessThan(Date.now() + 3_600_000);
    const time = ['--until', '2099-12-31T23:59:59+01:00'];
    await place.print('app', 'revoke', 'demo', '--jti', 'x', ...time);
    expect((await read()).revocations).toEqual([
      { jti: 'x', until: Date.UTC(2099, 11, 31, 22, 59, 59) },
      { sub: 'eve', until },
    ]);
    expect(await place.print('app', 'revoke', 'demo', '--jti', 'x', '--lift')).toContain('accepted again');
    await place.print('app', 'revoke', 'demo', '--sub', 'eve', '--lift');
    expect((await read()).revocations).toEqual([]);
  });

  test.each<[1 | 2, readonly string[], string]>([
    [2, ['demo'], '--jti'],
    [2, ['demo', '--jti', 'a', '--sub', 'b'], 'cannot be used with'],
    [2, ['demo', '--jti', 'a', '--until', 'tomorrow'], 'RFC 3339'],
    [2, ['demo', '--jti', 'a', '--until', '2099-02-30T00:00:00Z'], 'RFC 3339'],
    [2, ['demo', '--jti', 'a', '--until', '2099-02-20T00:00:00Z', '--lift'], 'cannot be used with'],
    [1, ['demo', '--jti', 'a', '--until', '2020-02-20T00:00:00Z'], 'time to come'],
    [1, ['demo', '--jti', 'a', '--lift'], 'no such revocation'],
    [1, ['nobody', '--jti', 'a'], 'there is no App "nobody"'],
  ])('ends with %p for %p', async (code, args, reason) => {
    expect(await place.fail(code, 'app', 'revoke', ...args)).toContain(reason);
    expect((await read()).revocations).toEqual([]);
  });
});
