/** Key sets behind a URL: how often they are fetched, how long a copy serves, and what is refused (docs/api.md, Capabilities). */
import { afterEach, describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import { JWKS_BYTES_MAX, JWKS_FETCH_MS_MAX } from './auth-limits.ts';
import { type AuthWorld, REAL_AUTH_WORLD } from './auth-world.ts';
import { UrlKeySource } from './jwks-source.ts';
import type { KeySet } from './key-set.ts';
import { keySetText, testKey } from './test/auth-fixture.ts';
import { FakeWorld, settle } from './test/fake-world-fixture.ts';

const URL_TEXT = 'https://issuer.test/jwks.json';
const first = keySetText({ ...(await testKey('ES256')).publicJwk, kid: 'first' });
const second = keySetText({ ...(await testKey('ES256', 'other')).publicJwk, kid: 'second' });

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

function openSource(world: AuthWorld, url = URL_TEXT): UrlKeySource {
  const source = new UrlKeySource(url, world);
  closers.push(() => source.close());
  return source;
}

/** The key ids of the result, or the error code. */
async function outcome(source: UrlKeySource): Promise<string> {
  try {
    return kids(await source.read());
  } catch (error) {
    return error instanceof ApiError ? error.code : String(error);
  }
}

function kids(keySet: KeySet): string {
  return keySet.keys.map((key) => key.kid).join();
}

/** The result if the source returns it without waiting. */
function immediate(source: UrlKeySource): string {
  const answer = source.read();
  if (!(answer instanceof Promise)) return kids(answer);
  answer.catch(() => undefined);
  return 'waits';
}

/** Uses the source every 500 ms, as steady traffic does. */
async function use(source: UrlKeySource, world: FakeWorld, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 500) {
    await world.advance(500);
    immediate(source);
  }
}

describe('fetching', () => {
  test('happens first when the keys are first needed, once for all who wait', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    expect(world.fetchCount).toBe(0);
    expect(await Promise.all(Array.from({ length: 20 }, () => outcome(source)))).toEqual(
      Array(20).fill('first'),
    );
    expect(world.fetchCount).toBe(1);
  });

  test('happens again within 5 s while in use, without any request having to wait', async () => {
    const world = new FakeWorld();
    const fetchedAt: number[] = [];
    world.answer = async () => {
      fetchedAt.push(world.monotonicNow());
      return new Response(first);
    };
    const source = openSource(world);
    await outcome(source);
    for (let step = 0; step < 40; step++) {
      await world.advance(500);
      expect(immediate(source)).toBe('first');
    }
    const gaps = fetchedAt.slice(1).map((at, index) => at - (fetchedAt[index] as number));
    expect(gaps.length).toBeGreaterThanOrEqual(4);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(5000);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1000);
  });

  test('that fails is told with the place of the key set, without what may be secret in its URL', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response('gone', { status: 410 });
    const source = openSource(world, 'https://user:password@issuer.test/keys/jwks.json?key=secret');
    const refused = await Promise.resolve(source.read()).catch((error: unknown) => error);
    const { message, cause } = (refused as ApiError).cause as Error;
    expect(message).toBe('the key set at https://issuer.test/keys/jwks.json');
    expect(String(cause)).toContain('410');
    expect((refused as ApiError).message).not.toContain('issuer.test');
  });

  test('shows a changed set within 5 s, also after a pause in use', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    await outcome(source);
    world.answer = async () => new Response(second);
    await world.advance(5000);
    expect(immediate(source)).toBe('second');
  });

  test('stops when nobody has asked for a minute; the next request waits for new keys', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    await outcome(source);
    await world.advance(70_000);
    const { fetchCount } = world;
    await world.advance(600_000);
    expect(world.fetchCount).toBe(fetchCount);
    world.answer = async () => new Response(second);
    expect(immediate(source)).toBe('waits');
    expect(await outcome(source)).toBe('second');
    expect(world.fetchCount).toBe(fetchCount + 1);
    await use(source, world, 5000);
    expect(world.fetchCount).toBeGreaterThan(fetchCount + 1);
  });

  test('begins again with the next request when it had stopped and the copy is still fresh', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    await outcome(source);
    for (let second = 0; world.timerCount > 0 && second < 120; second++) await world.advance(1000);
    const { fetchCount } = world;
    expect(immediate(source)).toBe('first');
    await world.advance(1);
    expect(world.fetchCount).toBe(fetchCount + 1);
  });

  test('that is slow holds up no request that has a copy', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    await outcome(source);
    world.answer = () => new Promise(() => undefined);
    for (let step = 0; step < 40; step++) {
      await world.advance(500);
      expect(immediate(source)).toBe('first');
    }
  });

  test('a copy over 5 s old does not serve while it is unknown whether fetching fails', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    await outcome(source);
    world.answer = async () => new Response(second);
    world.stall(5001);
    expect(immediate(source)).toBe('waits');
    expect(await outcome(source)).toBe('second');
  });

  test('ends with close', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    await outcome(source);
    source.close();
    await world.advance(20_000);
    expect(world.fetchCount).toBe(1);
    expect(world.timerCount).toBe(0);
  });
});

describe('failing', () => {
  test('without a copy: registry_unavailable, tried again no more than once a second', async () => {
    const world = new FakeWorld();
    const source = openSource(world);
    expect(await outcome(source)).toBe('registry_unavailable');
    for (let request = 0; request < 50; request++) expect(await outcome(source)).toBe('registry_unavailable');
    expect(world.fetchCount).toBe(1);
    world.answer = async () => new Response(first);
    await world.advance(1000);
    expect(await outcome(source)).toBe('first');
    expect(world.fetchCount).toBe(2);
  });

  test('with a copy: it serves for 60 s from its fetch, then 503, then new keys at once', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    await outcome(source);
    world.answer = async () => new Response(null, { status: 503 });
    for (let second = 1; second <= 60; second++) {
      await world.advance(1000);
      expect(immediate(source)).toBe('first');
    }
    await world.advance(1);
    expect(await outcome(source)).toBe('registry_unavailable');
    await use(source, world, 5000);
    expect(await outcome(source)).toBe('registry_unavailable');
    world.answer = async () => new Response(second);
    await world.advance(1000);
    expect(immediate(source)).toBe('second');
  });

  test('a failure that is over leaves no licence for old copies', async () => {
    const world = new FakeWorld();
    world.answer = async () => new Response(first);
    const source = openSource(world);
    await outcome(source);
    world.answer = async () => new Response(null, { status: 500 });
    await use(source, world, 10_000);
    world.answer = async () => new Response(first);
    await use(source, world, 3000);
    world.stall(5001);
    expect(immediate(source)).toBe('waits');
  });

  test.each<[string, () => Response]>([
    ['a status other than 200', () => new Response(first, { status: 201 })],
    ['no body', () => new Response(null, { status: 200 })],
    ['no JSON', () => new Response('<html>')],
    ['JSON that is no key set', () => new Response('{"keys":{}}')],
    ['a set that is too long', () => new Response(`{"keys":[],"x":"${'x'.repeat(JWKS_BYTES_MAX)}"}`)],
  ])('is what %s means', async (_, answer) => {
    const world = new FakeWorld();
    world.answer = async () => answer();
    expect(await outcome(openSource(world))).toBe('registry_unavailable');
  });

  test('unsafe keys in a fetched set are passed over, the others serve', async () => {
    const world = new FakeWorld();
    const jwks = JSON.parse(first) as { keys: object[] };
    jwks.keys.push({ kty: 'oct', k: 'c2VjcmV0', kid: 'shared' });
    world.answer = async () => new Response(JSON.stringify(jwks));
    expect(await outcome(openSource(world))).toBe('first');
  });
});

describe('over a real connection', () => {
  /** Serves `answer` and returns the URL of its key set. */
  function serve(answer: (request: Request) => Response | Promise<Response>): string {
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer });
    closers.push(() => void server.stop(true));
    return `http://127.0.0.1:${server.port}/jwks.json`;
  }

  test('fetches with GET, without credentials', async () => {
    let seen: Request | undefined;
    const url = serve((request) => {
      seen = request;
      return new Response(first);
    });
    expect(await outcome(openSource(REAL_AUTH_WORLD, url))).toBe('first');
    expect(seen?.method).toBe('GET');
    expect(seen?.headers.get('authorization')).toBeNull();
    expect(seen?.headers.get('cookie')).toBeNull();
  });

  test.each([301, 302, 303, 307, 308])('follows no redirect %d', async (status) => {
    let followed = 0;
    const url = serve((request) => {
      if (!request.url.endsWith('/jwks.json')) {
        followed++;
        return new Response(first);
      }
      return new Response(first, { status, headers: { location: '/elsewhere' } });
    });
    expect(await outcome(openSource(REAL_AUTH_WORLD, url))).toBe('registry_unavailable');
    expect(followed).toBe(0);
  });

  test('reads no further than the limit of an endless body', async () => {
    let sent = 0;
    const url = serve(() => {
      const body = new ReadableStream({
        pull(controller) {
          sent += 65_536;
          controller.enqueue(new Uint8Array(65_536).fill(0x20));
        },
      });
      return new Response(body);
    });
    expect(await outcome(openSource(REAL_AUTH_WORLD, url))).toBe('registry_unavailable');
    await settle();
    expect(sent).toBeLessThan(64 * JWKS_BYTES_MAX);
  });

  test('waits no longer than the time limit for a body that drips', async () => {
    const url = serve(
      () =>
        new Response(
          new ReadableStream({
            async pull(controller) {
              await Bun.sleep(100);
              controller.enqueue(new Uint8Array([0x20]));
            },
          }),
        ),
    );
    const startedAt = performance.now();
    expect(await outcome(openSource(REAL_AUTH_WORLD, url))).toBe('registry_unavailable');
    const tookMs = performance.now() - startedAt;
    expect(tookMs).toBeGreaterThanOrEqual(JWKS_FETCH_MS_MAX - 50);
    // Without the limit it would never end.
    expect(tookMs).toBeLessThan(JWKS_FETCH_MS_MAX + 10_000);
  });

  test('a port where nobody listens', async () => {
    const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('') });
    const url = `http://127.0.0.1:${server.port}/jwks.json`;
    await server.stop(true);
    expect(await outcome(openSource(REAL_AUTH_WORLD, url))).toBe('registry_unavailable');
  });
});
