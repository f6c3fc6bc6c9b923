/** Tokens renewed before they end, once for all who ask; and requests sent once more after a 401. */

import { describe, expect, test } from 'bun:test';
import { SECOND_MS } from '@holdfast/protocol';
import { createTokenSource, TokenRenewalError, type TokenSource } from './index.ts';
import { expectCasError, FakeSpace, failure, json, TOKEN, USAGE } from './test/fake-space-fixture.ts';
import { ManualClock } from './test/manual-clock-fixture.ts';

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Signs nothing: only its times are read here. */
function makeToken(name: string, claims: Record<string, unknown>): string {
  return `${encode({ alg: 'ES256' })}.${encode({ name, ...claims })}.signature`;
}

/** An issuer whose tokens live for `lifeMs`, and fails when told to. */
function startIssuer(lifeMs: number, options: { readonly aheadMs?: number } = {}) {
  const clock = new ManualClock();
  const made: string[] = [];
  const issuer = {
    clock,
    made,
    failure: undefined as Error | undefined,
    /** renewals wait for it */
    gate: Promise.resolve(),
    failed: [] as unknown[],
    async renew(): Promise<string> {
      await issuer.gate;
      if (issuer.failure !== undefined) throw issuer.failure;
      const iat = (clock.now() - (options.aheadMs ?? 0)) / 1_000;
      made.push(makeToken(`token ${made.length}`, { iat, exp: iat + lifeMs / 1_000 }));
      return made.at(-1) as string;
    },
  };
  const { renew } = issuer;
  const onRenewalFailed = (error: unknown): unknown => issuer.failed.push(error);
  return { ...issuer, issuer, source: createTokenSource({ renew, clock, onRenewalFailed }) };
}

/** The number of the token that was given. */
async function ask(source: TokenSource, made: readonly string[], refused?: string): Promise<number> {
  return made.indexOf(await source(refused));
}

describe('createTokenSource', () => {
  test.each([
    ['a fifth of its life before the end', 1_000 * SECOND_MS, 800 * SECOND_MS],
    ['30 s before the end', 100 * SECOND_MS, 70 * SECOND_MS],
    ['at half of a short life', 20 * SECOND_MS, 10 * SECOND_MS],
  ])('renews %s, while the old one is still given', async (_, lifeMs, renewAtMs) => {
    const { source, clock, made } = startIssuer(lifeMs);
    expect(await ask(source, made)).toBe(0);
    await clock.advance(renewAtMs - 1);
    expect([await ask(source, made), made.length]).toEqual([0, 1]);
    await clock.advance(1);
    expect(await ask(source, made)).toBe(0);
    await clock.advance(0);
    expect([await ask(source, made), made.length]).toEqual([1, 2]);
  });

  test('a hundred at once share one renewal', async () => {
    const { source, clock, made } = startIssuer(100 * SECOND_MS);
    const askAll = (refused?: string) =>
      Promise.all(Array.from({ length: 100 }, () => ask(source, made, refused)));
    expect(new Set(await askAll())).toEqual(new Set([0]));
    await clock.advance(100 * SECOND_MS);
    expect(new Set(await askAll())).toEqual(new Set([1]));
    // Those that hear late that the server refused the first one get the one that has come since.
    expect(new Set(await askAll(made[1]))).toEqual(new Set([2]));
    expect(new Set(await askAll(made[1]))).toEqual(new Set([2]));
    expect([made.length, clock.runningTimers]).toEqual([3, 0]);
  });

  test('a renewal that fails early leaves the token at hand, and is tried again after a pause', async () => {
    const { source, clock, made, issuer } = startIssuer(100 * SECOND_MS);
    await source();
    issuer.failure = new Error('issuer away');
    await clock.advance(70 * SECOND_MS);
    for (let second = 0; second < 10; second += 1) {
      expect(await ask(source, made)).toBe(0);
      await clock.advance(SECOND_MS);
    }
    expect(issuer.failed.map(String)).toEqual(
      Array(2).fill('TokenRenewalError: the token cannot be renewed: issuer away'),
    );
    issuer.failure = undefined;
    expect(await ask(source, made)).toBe(0);
    await clock.advance(0);
    expect(await ask(source, made)).toBe(1);
  });

  test('without a good token the failure is told, and the next call tries anew', async () => {
    const { source, clock, made, issuer } = startIssuer(100 * SECOND_MS);
    issuer.failure = new Error('issuer away');
    const error = await Promise.resolve(source()).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(TokenRenewalError);
    expect((error as Error).cause).toBe(issuer.failure);
    issuer.failure = undefined;
    expect(await ask(source, made)).toBe(0);
    await clock.advance(100 * SECOND_MS);
    issuer.failure = new Error('issuer away');
    expect(Promise.resolve(source())).rejects.toThrow('the token cannot be renewed: issuer away');
    await clock.advance(0);
  });

  test('a renewal that hangs is given up', async () => {
    const { source, clock, made, issuer } = startIssuer(100 * SECOND_MS);
    issuer.gate = new Promise(() => undefined);
    const hanging = Promise.resolve(source()).catch(String);
    await clock.advance(30 * SECOND_MS);
    expect(await hanging).toBe('TokenRenewalError: no new token came within 30 s');
    issuer.gate = Promise.resolve();
    expect(await ask(source, made)).toBe(0);
    expect(clock.runningTimers).toBe(0);
  });

  test('a clock that differs from the issuer’s by more than a life renews no more often', async () => {
    const { source, clock, made } = startIssuer(100 * SECOND_MS, { aheadMs: 10_000 * SECOND_MS });
    for (let second = 0; second < 69; second += 1) {
      await source();
      await clock.advance(SECOND_MS);
    }
    expect(made.length).toBe(1);
  });

  test.each(['opaque', 'a.b.c', makeToken('no times', {}), makeToken('text', { exp: 'soon' })])(
    'what says no end is renewed when it is refused alone: %s',
    async (token) => {
      const clock = new ManualClock();
      let renewals = 0;
      const source = createTokenSource({
        clock,
        renew: () => {
          renewals += 1;
          return token;
        },
      });
      await source();
      await clock.advance(1_000_000 * SECOND_MS);
      expect([await source(), renewals]).toEqual([token, 1]);
      expect([await source(token), renewals]).toEqual([token, 2]);
    },
  );
});

describe('after a 401', () => {
  /** Gives `old` until told that it was refused. */
  const renewing = (old: string, fresh: string) => {
    const refusals: (string | undefined)[] = [];
    const token: TokenSource = (refused) => {
      refusals.push(refused);
      return refusals.includes(old) ? fresh : old;
    };
    return { refusals, token };
  };

  test('every operation is sent once more with another token, also where nothing else is tried again', async () => {
    const space = new FakeSpace();
    const hash = space.store('hello');
    for (const [kind, answer] of [
      ['usage', USAGE],
      ['gc', { examined: 0, deleted: 0, reclaimedContentBytes: 0 }],
      ['root-refs', { refDomain: 'app', revision: 0, items: [], nextCursor: null }],
      ['root-refs', { success: true, idempotent: false, revision: 1 }],
    ] as const) {
      space.plant(kind, () => failure(401, 'invalid_token'));
      space.plant(kind, () => json(answer));
    }
    const client = () => space.client({ token: renewing('old', TOKEN).token, retry: { attemptsMax: 1 } });
    await client().getUsage();
    await client().runGc();
    await client().listRootRefs();
    await client().updateRootRefs({ requestId: 'one', changes: { [hash]: 1 } });
    await client().readMetadata(hash);
    await client().readContent(hash);
    await client().leaseNode(hash, { leaseDurationMs: 60_000 });
    const sent = space.calls.map(({ kind, headers }) => `${kind} ${headers.get('authorization')}`);
    const kinds = ['usage', 'gc', 'root-refs', 'root-refs', 'metadata', 'content', 'lease'];
    expect(sent).toEqual(kinds.flatMap((kind) => [`${kind} Bearer old`, `${kind} Bearer ${TOKEN}`]));
    const [first, second] = space.calls.slice(6, 8).map(({ body }) => new TextDecoder().decode(body));
    expect(second).toBe(first as string);
    expect(space.clock.waits).toEqual([]);
  });

  test('once, and not without another token', async () => {
    const space = new FakeSpace();
    const { token, refusals } = renewing('old', 'wrong.too');
    expect((await expectCasError(space.client({ token }).getUsage(), 'invalid_token')).status).toBe(401);
    expect([space.calls.length, refusals]).toEqual([2, [undefined, 'old']]);
    await expectCasError(space.client({ token: 'old' }).getUsage(), 'invalid_token');
    await expectCasError(space.client({ token: async () => 'old' }).getUsage(), 'invalid_token');
    expect(space.calls.length).toBe(4);
  });

  test('it takes nothing from the tries of what fails otherwise', async () => {
    const space = new FakeSpace();
    const busy = () => failure(503, 'SERVICE_UNAVAILABLE');
    space.plant(
      'usage',
      () => failure(401, 'invalid_token'),
      busy,
      () => json(USAGE),
    );
    const { token } = renewing('old', TOKEN);
    expect(await space.client({ token, retry: { attemptsMax: 2 } }).getUsage()).toEqual(USAGE);
  });

  test('a renewal that fails is told with its reason, and one that hangs can be given up', async () => {
    const space = new FakeSpace();
    const renew = () => Promise.reject(new Error('issuer away'));
    const error = await expectCasError(
      space.client({ token: createTokenSource({ renew }) }).getUsage(),
      'TOKEN_UNAVAILABLE',
    );
    expect(error.message).toBe('getUsage: the token cannot be renewed: issuer away');
    const ending = new AbortController();
    const token: TokenSource = (refused) => {
      if (refused === undefined) return 'old';
      queueMicrotask(() => ending.abort(new Error('enough')));
      return new Promise(() => undefined);
    };
    const hanging = space.client({ token }).getUsage({ signal: ending.signal });
    expect(await hanging.catch(String)).toBe('Error: enough');
  });

  test('uploads carry no token, and their refusal asks for none', async () => {
    const space = new FakeSpace();
    const { token, refusals } = renewing('old', TOKEN);
    space.plant('upload', () => failure(401, 'invalid_token'));
    await space
      .client({ token })
      .putNode({ contentType: 'a/b', content: 'x' })
      .catch(() => undefined);
    expect(refusals.filter((refused) => refused !== undefined)).toEqual(['old']);
    expect(space.calls.some(({ kind, headers }) => kind === 'upload' && headers.has('authorization'))).toBe(
      false,
    );
  });
});
