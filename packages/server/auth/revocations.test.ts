/** Revoked tokens are refused in row 7, whether they were seen before or not. */
import { afterAll, describe, expect, test } from 'bun:test';
import { ApiError, HOUR_MS } from '@holdfast/protocol';
import { REGISTRY_RELOAD_MS } from './auth-limits.ts';
import { type Authorizer, authorize, openAuthorizer } from './authorize.ts';
import type { Capability } from './capability.ts';
import type { AppRecord, Revocation } from './registry-store.ts';
import {
  APP_ID,
  appRecord,
  keySetText,
  MemoryRegistryStore,
  mint,
  SPACE_ID,
  testKey,
} from './test/auth-fixture.ts';
import { FakeWorld } from './test/fake-world-fixture.ts';

const key = await testKey('ES256');
const JWKS = keySetText({ ...key.publicJwk, kid: 'a' });
const opened: Authorizer[] = [];
afterAll(() => {
  for (const authorizer of opened) authorizer.close();
});

async function openServer(change: Partial<AppRecord> = {}) {
  const world = new FakeWorld();
  const store = new MemoryRegistryStore(appRecord({ keys: { kind: 'static', jwks: JWKS }, ...change }));
  const authorizer = await openAuthorizer(store, world);
  opened.push(authorizer);
  const token = (claims: object, lifeMs = HOUR_MS) =>
    mint(key, world.now(), {
      header: { kid: 'a' },
      claims: { exp: (world.now() + lifeMs) / 1000, ...claims },
    });
  /** the proven subject of the last request */
  let proven: string | undefined;
  const ask = async (bearer: string): Promise<string> => {
    const witness = {
      set capability(known: Capability | undefined) {
        proven = known?.subject;
      },
    };
    proven = undefined;
    try {
      await authorize(authorizer, `Bearer ${bearer}`, APP_ID, SPACE_ID, 'readMetadata', witness);
      return 'granted';
    } catch (error) {
      return error instanceof ApiError ? `${error.code}: ${error.message}` : String(error);
    }
  };
  const reload = () => world.advance(REGISTRY_RELOAD_MS + 1);
  return { world, store, token, ask, reload, findProven: () => proven };
}

const REVOKED = 'invalid_token: the token is not valid: the operator has revoked it';

describe('a revocation', () => {
  test.each<['jti' | 'sub', object, object]>([
    ['jti', { jti: 'x', sub: 'same' }, { jti: 'y', sub: 'same' }],
    ['sub', { sub: 'x', jti: 'same' }, { sub: 'y', jti: 'same' }],
  ])('by %s refuses that token, remembered or new, and no other', async (claim, hit, spared) => {
    const { world, store, token, ask, reload } = await openServer();
    const [known, other] = [await token(hit), await token(spared)];
    expect([await ask(known), await ask(other)]).toEqual(['granted', 'granted']);
    const swapped = { jti: (hit as { sub: string }).sub, sub: (hit as { jti: string }).jti };
    expect(await ask(await token(swapped))).toBe('granted');
    store.revoke(APP_ID, { claim, value: 'x', until: world.now() + HOUR_MS });
    await reload();
    expect([await ask(known), await ask(known), await ask(await token(hit))]).toEqual([
      REVOKED,
      REVOKED,
      REVOKED,
    ]);
    expect([await ask(other), await ask(await token(spared)), await ask(await token({}))]).toEqual([
      'granted',
      'granted',
      'granted',
    ]);
    store.liftRevocation(APP_ID);
    await reload();
    expect([await ask(known), await ask(await token(hit))]).toEqual(['granted', 'granted']);
  });

  test('counts until its end, and after it for a token that should have expired by then', async () => {
    const { world, store, token, ask, reload } = await openServer();
    const until = world.now() + 60_000;
    const [longer, shorter] = [await token({ jti: 'x' }), await token({ jti: 'x' }, 60_000)];
    store.revoke(APP_ID, { claim: 'jti', value: 'x', until });
    await reload();
    expect([await ask(longer), await ask(shorter)]).toEqual([REVOKED, REVOKED]);
    await world.advance(until - world.now() - 1);
    expect(await ask(longer)).toBe(REVOKED);
    await world.advance(1);
    expect([await ask(longer), await ask(shorter)]).toEqual(['granted', REVOKED]);
  });

  test('leaves it proven whose token it was, for the audit log', async () => {
    const { world, store, token, ask, reload, findProven } = await openServer();
    const known = await token({ sub: 'bob' });
    expect([await ask(known), findProven()]).toEqual(['granted', 'bob']);
    store.revoke(APP_ID, { claim: 'sub', value: 'bob', until: world.now() + HOUR_MS });
    await reload();
    expect([await ask(known), findProven()]).toEqual([REVOKED, 'bob']);
    expect([await ask(await token({ sub: 'bob', jti: 'new' })), findProven()]).toEqual([REVOKED, 'bob']);
  });

  test.each<[string, Partial<AppRecord>, object, string]>([
    ['a suspended App', { status: 'suspended' }, { jti: 'x' }, 'APP_SUSPENDED'],
    ['another Space', {}, { jti: 'x', spaceId: 'other' }, 'invalid_token'],
    ['no permission', {}, { jti: 'x', permissions: [] }, 'invalid_token'],
  ])('comes after rows 1 to 6 and before rows 8 to 10: %s', async (_, change, claims, code) => {
    const revocations: Revocation[] = [{ claim: 'jti', value: 'x', until: Number.MAX_SAFE_INTEGER }];
    const { token, ask } = await openServer({ revocations, ...change });
    expect(await ask(await token(claims))).toStartWith(code);
  });
});
