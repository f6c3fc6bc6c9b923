/** Which checks a remembered capability may skip, and which not (docs/api.md, Capabilities). */
import { afterAll, describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import { JWKS_WAITERS_MAX } from './auth-limits.ts';
import {
  type Authorizer,
  authorize,
  CapabilityCache,
  digestCredential,
  openAuthorizer,
  type VerifiedCapability,
} from './authorize.ts';
import type { AppRecord } from './registry-store.ts';
import {
  APP_ID,
  appRecord,
  keySetText,
  MemoryRegistryStore,
  mint,
  SPACE_ID,
  testKey,
} from './test/auth-fixture.ts';
import { FakeWorld, settle } from './test/fake-world-fixture.ts';

const key = await testKey('ES256');
const other = await testKey('ES256', 'other');
const opened: Authorizer[] = [];
afterAll(() => {
  for (const authorizer of opened) authorizer.close();
});

const JWKS = keySetText({ ...key.publicJwk, kid: 'a' });

/** A server that has already granted one capability. */
async function openWarm(change: Partial<AppRecord> = {}) {
  const world = new FakeWorld();
  const record = appRecord({ keys: { kind: 'static', jwks: JWKS }, ...change });
  const store = new MemoryRegistryStore(record);
  world.answer = async () => new Response(JWKS);
  const authorizer = await openAuthorizer(store, world);
  opened.push(authorizer);
  const bearer = `Bearer ${await mint(key, world.now(), { header: { kid: 'a' }, claims: { exp: world.now() / 1000 + 3600 } })}`;
  await authorize(authorizer, bearer, APP_ID, SPACE_ID, 'readMetadata');
  expect(isRemembered(authorizer, bearer)).toBe(true);
  return { world, store, record, authorizer, bearer };
}

/** A remembered capability answers without a promise. */
function isRemembered(authorizer: Authorizer, bearer: string): boolean {
  const answer = authorize(authorizer, bearer, APP_ID, SPACE_ID, 'readMetadata');
  if (!(answer instanceof Promise)) return true;
  answer.catch(() => undefined);
  return false;
}

async function outcome(authorizer: Authorizer, bearer: string, appId = APP_ID): Promise<string> {
  try {
    await authorize(authorizer, bearer, appId, SPACE_ID, 'readMetadata');
    return 'granted';
  } catch (error) {
    return error instanceof ApiError ? error.code : String(error);
  }
}

describe('a remembered capability', () => {
  test('is refused at once outside its App, Space and permissions', async () => {
    const { authorizer, bearer } = await openWarm();
    const ask = (appId: string, spaceId: string, operation: 'runGc' | 'readMetadata') => () =>
      authorize(authorizer, bearer, appId, spaceId, operation);
    expect(ask('other', SPACE_ID, 'readMetadata')).toThrow('another App');
    expect(ask(APP_ID, 'other', 'readMetadata')).toThrow('another Space');
    expect(ask(APP_ID, SPACE_ID, 'runGc')).toThrow('cas:gc:execute');
  });

  test('is one entry, however its header is written', async () => {
    const { authorizer, bearer } = await openWarm();
    const token = bearer.slice('Bearer '.length);
    for (const written of [
      `bearer ${token}`,
      `BEARER   ${token}`,
      `Bearer    ${token}`,
      `Bearer \t${token}`,
    ]) {
      expect(isRemembered(authorizer, written)).toBe(true);
    }
    expect(authorizer.cache.size).toBe(1);
    expect(await outcome(authorizer, `Basic ${token}`)).toBe('invalid_token');
    expect(await outcome(authorizer, `Bearer ${token},`)).toBe('invalid_token');
  });

  test('expires to the millisecond, 30 s after exp', async () => {
    const { world, authorizer, bearer } = await openWarm();
    world.wallMs += 3_600_000 + 30_000 - 1;
    expect(await outcome(authorizer, bearer)).toBe('granted');
    world.wallMs += 1;
    expect(await outcome(authorizer, bearer)).toBe('invalid_token');
  });

  test('is not valid before its iat when the clock is set back', async () => {
    const { world, authorizer, bearer } = await openWarm();
    world.wallMs -= 30_001;
    expect(await outcome(authorizer, bearer)).toBe('invalid_token');
  });

  test('ends with the suspension of its App within 5 s and works again after the resumption', async () => {
    const { world, store, authorizer, bearer } = await openWarm();
    store.setStatus(APP_ID, 'suspended');
    await world.advance(5000);
    expect(await outcome(authorizer, bearer)).toBe('APP_SUSPENDED');
    expect(await outcome(authorizer, bearer, 'other')).toBe('APP_SUSPENDED');
    store.setStatus(APP_ID, 'active');
    await world.advance(5000);
    expect(await outcome(authorizer, bearer)).toBe('granted');
    expect(isRemembered(authorizer, bearer)).toBe(true);
  });

  test('is granted at once for an App that was added since the registry was read', async () => {
    const { world, store, record, authorizer, bearer } = await openWarm();
    store.remove(APP_ID);
    await authorizer.registry.readAgain();
    expect(await outcome(authorizer, bearer)).toBe('unknown_issuer');
    world.stall(1000);
    store.insert(record);
    expect(await outcome(authorizer, bearer)).toBe('granted');
    const { readCount } = store;
    expect(await outcome(authorizer, bearer)).toBe('granted');
    expect(store.readCount).toBe(readCount);
  });

  test('ends with the removal of its App, and stays ended for an App of another issuer', async () => {
    const { world, store, record, authorizer, bearer } = await openWarm();
    store.remove(APP_ID);
    await world.advance(5000);
    expect(await outcome(authorizer, bearer)).toBe('unknown_issuer');
    store.insert({ ...record, issuer: 'https://new.test' });
    await world.advance(5000);
    expect(await outcome(authorizer, bearer)).toBe('unknown_issuer');
  });

  test.each<[string, Partial<AppRecord>, string]>([
    [
      'key',
      { keys: { kind: 'static', jwks: keySetText({ ...other.publicJwk, kid: 'a' }) } },
      'invalid_token',
    ],
    ['audience', { audience: 'another' }, 'invalid_token'],
    ['lifetime', { tokenLifetimeMsMax: 60_000 }, 'invalid_token'],
    ['algorithms', { algorithms: ['RS256'] }, 'unsupported_algorithm'],
    ['App of the issuer', { appId: 'other' }, 'resource_scope_mismatch'],
  ])('ends when the registered %s is replaced', async (_, change, expected) => {
    const { world, store, record, authorizer, bearer } = await openWarm();
    store.remove(APP_ID);
    store.insert({ ...record, ...change });
    await world.advance(5000);
    expect(await outcome(authorizer, bearer)).toBe(expected);
  });

  test('outlives changes of other Apps and of its own row that say the same', async () => {
    const { world, store, record, authorizer, bearer } = await openWarm();
    store.insert(appRecord({ appId: 'second', issuer: 'https://second.test' }));
    store.replace({ ...record, updatedAt: 99 });
    await world.advance(5000);
    expect(isRemembered(authorizer, bearer)).toBe(true);
  });

  test('ends when its key leaves a fetched key set, within 5 s', async () => {
    const { world, authorizer, bearer } = await openWarm({
      keys: { kind: 'url', url: 'https://i.test/jwks' },
    });
    world.answer = async () => new Response(keySetText({ ...other.publicJwk, kid: 'b' }));
    await world.advance(5000);
    expect(await outcome(authorizer, bearer)).toBe('invalid_token');
  });

  test('ends when a key of the same kid has other bytes', async () => {
    const { world, authorizer, bearer } = await openWarm({
      keys: { kind: 'url', url: 'https://i.test/jwks' },
    });
    world.answer = async () => new Response(keySetText({ ...other.publicJwk, kid: 'a' }));
    await world.advance(5000);
    expect(await outcome(authorizer, bearer)).toBe('invalid_token');
  });

  test('stays remembered when the same keys are fetched in other words', async () => {
    const { world, authorizer, bearer } = await openWarm({
      keys: { kind: 'url', url: 'https://i.test/jwks' },
    });
    world.answer = async () =>
      new Response(` {"x": 1, "keys": [${JSON.stringify({ kid: 'a', ...key.publicJwk })}]}`);
    await world.advance(5000);
    expect(isRemembered(authorizer, bearer)).toBe(true);
  });

  test('is 503 when the registry has been unreadable for over 5 s', async () => {
    const { world, store, authorizer, bearer } = await openWarm();
    store.failure = new Error('disk gone');
    await world.advance(4000);
    expect(await outcome(authorizer, bearer)).toBe('granted');
    await world.advance(2001);
    expect(await outcome(authorizer, bearer)).toBe('registry_unavailable');
    store.failure = undefined;
    expect(await outcome(authorizer, bearer)).toBe('granted');
  });

  test('is 503 when its key set has been out of reach for over 60 s', async () => {
    const { world, authorizer, bearer } = await openWarm({
      keys: { kind: 'url', url: 'https://i.test/jwks' },
    });
    world.answer = async () => new Response('down', { status: 500 });
    await world.advance(59_000);
    expect(await outcome(authorizer, bearer)).toBe('granted');
    await world.advance(1001);
    expect(await outcome(authorizer, bearer)).toBe('registry_unavailable');
  });
});

describe('a first fetch of keys that takes long', () => {
  test.each<[string, (store: MemoryRegistryStore, record: AppRecord) => void, string]>([
    ['nothing', () => undefined, 'granted'],
    ['a suspension', (store) => store.setStatus(APP_ID, 'suspended'), 'APP_SUSPENDED'],
    ['a removal', (store) => store.remove(APP_ID), 'unknown_issuer'],
    ['a replacement', (store, record) => store.replace({ ...record, audience: 'x' }), 'registry_unavailable'],
  ])('is answered by the rows as they are after it: %s', async (_, change, expected) => {
    const world = new FakeWorld();
    const record = appRecord({ keys: { kind: 'url', url: 'https://i.test/jwks' } });
    const store = new MemoryRegistryStore(record);
    const authorizer = await openAuthorizer(store, world);
    opened.push(authorizer);
    const answer = Promise.withResolvers<Response>();
    world.answer = () => answer.promise;
    const bearer = `Bearer ${await mint(key, world.now(), { header: { kid: 'a' } })}`;
    const pending = outcome(authorizer, bearer);
    await world.advance(1000);
    change(store, record);
    await world.advance(1500);
    answer.resolve(new Response(JWKS));
    expect(await pending).toBe(expected);
  });
});

test('those who wait for a key set hold places that peers share: nobody who names an App keeps its users out', async () => {
  const world = new FakeWorld();
  const store = new MemoryRegistryStore(
    appRecord({ keys: { kind: 'url', url: 'https://i.test/jwks' } }),
    appRecord({
      appId: 'second',
      issuer: 'https://second.test',
      keys: { kind: 'url', url: 'https://s.test/' },
    }),
  );
  const authorizer = await openAuthorizer(store, world);
  opened.push(authorizer);
  const fetched = Promise.withResolvers<Response>();
  world.answer = () => fetched.promise;
  const bearer = `Bearer ${await mint(key, world.now(), { header: { kid: 'a' } })}`;
  const second = await mint(key, world.now(), {
    header: { kid: 'a' },
    claims: { iss: 'https://second.test' },
  });
  const ask = (peer: string, authorization = bearer): Promise<string> =>
    Promise.resolve(
      authorize(authorizer, authorization, APP_ID, SPACE_ID, 'readMetadata', {
        capability: undefined,
        peerShare: () => peer,
      }),
    ).then(
      () => 'granted',
      (error: unknown) => (error instanceof ApiError ? error.code : String(error)),
    );
  const crowd = Array.from({ length: JWKS_WAITERS_MAX }, () => ask('crowd'));
  await settle();
  const held = authorizer.waiters.used;
  expect(held).toBeGreaterThan(JWKS_WAITERS_MAX / 3);
  expect(held).toBeLessThan(JWKS_WAITERS_MAX);
  const [user, neighbour] = [ask('user'), ask('crowd', `Bearer ${second}`)];
  await settle();
  expect(authorizer.waiters.used).toBe(held + 2);
  fetched.resolve(new Response(JWKS));
  expect(await user).toBe('granted');
  expect(await neighbour).not.toBe('RESOURCE_EXHAUSTED');
  const refused = (await Promise.all(crowd)).filter((each) => each === 'RESOURCE_EXHAUSTED');
  expect(refused).toHaveLength(JWKS_WAITERS_MAX - held);
});

describe('failures', () => {
  test('are never remembered', async () => {
    const { world, store, record, authorizer } = await openWarm();
    const early = `Bearer ${await mint(other, world.now(), { header: { kid: 'b' } })}`;
    expect(await outcome(authorizer, early)).toBe('invalid_token');
    store.replace({
      ...record,
      keys: { kind: 'static', jwks: keySetText({ ...other.publicJwk, kid: 'b' }) },
    });
    await world.advance(5000);
    expect(await outcome(authorizer, early)).toBe('granted');
  });

  test('a capability out of scope at first is remembered as verified, not as granted', async () => {
    const { world, authorizer } = await openWarm();
    const bearer = `Bearer ${await mint(key, world.now(), { header: { kid: 'a' }, claims: { spaceId: 'elsewhere' } })}`;
    expect(await outcome(authorizer, bearer)).toBe('resource_scope_mismatch');
    expect(() => authorize(authorizer, bearer, APP_ID, SPACE_ID, 'readMetadata')).toThrow('another Space');
    expect(authorize(authorizer, bearer, APP_ID, 'elsewhere', 'readMetadata')).not.toBeInstanceOf(Promise);
  });

  test('a server does not start on a registry it cannot read', async () => {
    const store = new MemoryRegistryStore();
    store.failure = new Error('disk gone');
    await expect(openAuthorizer(store, new FakeWorld())).rejects.toThrow('disk gone');
  });
});

describe('the cache', () => {
  const entry = {} as VerifiedCapability;

  test('holds no more than its bound and drops what nobody asked for', () => {
    const cache = new CapabilityCache(4);
    for (const digest of ['a', 'b', 'c']) cache.store(digest, entry);
    expect(cache.find('a')).toBe(entry);
    for (const digest of ['d', 'e']) cache.store(digest, entry);
    expect(['a', 'b'].map((digest) => cache.find(digest) !== undefined)).toEqual([true, false]);
    let largest = 0;
    for (let at = 0; at < 100; at++) {
      cache.store(`x${at}`, entry);
      cache.find(`x${at - 3}`);
      largest = Math.max(largest, cache.size);
    }
    expect(largest).toBe(4);
    expect(cache.find('x99')).toBe(entry);
  });

  test('stores one digest over and over without losing others', () => {
    const cache = new CapabilityCache(4);
    cache.store('a', entry);
    for (let at = 0; at < 100; at++) cache.store('b', entry);
    expect(cache.size).toBe(2);
    expect(cache.find('a')).toBe(entry);
  });

  test('knows tokens by their SHA-256 only', () => {
    const digest = digestCredential('abc');
    expect(Buffer.from(digest, 'base64').toString('hex')).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    );
  });
});
