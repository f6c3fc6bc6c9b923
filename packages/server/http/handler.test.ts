/** Cases that the conformance suite cannot cause from outside: failures, load, configuration, and skipped work. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import type { Core } from '../core/core.ts';
import type { MetadataStore } from '../core/ports.ts';
import { ContentDamaged, StoreUnavailable } from '../core/store-failure.ts';
import type { ContentUploads } from '../core/upload-ports.ts';
import type { Connections } from './peer.ts';
import { TrustedProxies } from './peer.ts';
import { makeTenantShares, type TenantShareOptions } from './tenant-shares.ts';
import { type HandlerWorld, leaseRequest, openHandlerWorld, SPACE_URL } from './test/handler-fixture.ts';

const HASH = 'a'.repeat(64);

let world: HandlerWorld;

beforeAll(async () => {
  world = await openHandlerWorld();
});

afterAll(() => world.close());

beforeEach(() => {
  world.failures.length = 0;
  world.authorized.length = 0;
});

/** The real core whose every row verb fails with `error`. */
function failingCore(error: unknown): Core {
  const metadata = new Proxy(world.core.metadata, {
    get: (target, name) => {
      const verb = Reflect.get(target, name);
      if (typeof verb !== 'function') return verb;
      return () => {
        throw error;
      };
    },
  });
  return { ...world.core, metadata };
}

const get = (path: string, headers: Record<string, string> = {}): Request =>
  new Request(`${SPACE_URL}${path}`, { headers });

async function answerOf(core: Core, request: Request): Promise<{ response: Response; text: string }> {
  const response = await world.handler({ core }).handle(request);
  return { response, text: await response.text() };
}

describe('failures', () => {
  test('an unexpected error is a 500 without detail, logged with the id the caller gets', async () => {
    const secret = new Error('the cupboard key is under the mat');
    const { response, text } = await answerOf(failingCore(secret), get(`/cas/nodes/${HASH}/metadata`));
    expect(response.status).toBe(500);
    const body = JSON.parse(text);
    expect(body.error).toBe('INTERNAL_ERROR');
    expect(text).not.toContain('cupboard');
    const [report] = world.failures;
    expect(report).toMatchObject({ kind: 'unexpected', error: secret });
    expect(response.headers.get('x-request-id')).toBe(report?.requestId as string);
    expect(body.message).toContain(report?.requestId);
    expect(response.headers.get('server-timing')).toMatch(/^cas_edge;dur=\d+\.\d{3}, cas_auth;dur=/);
    expect(response.headers.get('cache-control')).toBe('no-store');
  });

  const HTML = { accept: 'text/html' };
  test.each([
    ['a wrong query', 400, () => get('/root-refs?limit=0')],
    ['no such route', 404, () => new Request('http://localhost/v2')],
    ['the front page', 404, () => new Request('http://localhost/', { headers: HTML })],
    ['an unknown upload', 403, () => new Request('http://localhost/uploads/x', { method: 'PUT', body: 'a' })],
    ['a HEAD', 404, () => new Request('http://localhost/v2', { method: 'HEAD' })],
  ])('%s: the answer %i has an id, which pages may read', async (_, status, request) => {
    const response = await world.handler({}).handle(request());
    expect(response.status).toBe(status);
    expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    expect(response.headers.get('access-control-expose-headers')).toContain('X-Request-Id');
  });

  test.each([
    ['a store that is away', new StoreUnavailable('away')],
    ['an I/O error', Object.assign(new Error('disk'), { code: 'EIO' })],
    ['an error of the database', Object.assign(new Error('disk'), { code: 'SQLITE_IOERR_READ' })],
    ['damage met while a body was gathered', new ContentDamaged('block 3')],
  ])('%s is a 503 to be tried again', async (_, error) => {
    const { response, text } = await answerOf(failingCore(error), get(`/cas/nodes/${HASH}/content`));
    expect(response.status).toBe(503);
    expect(JSON.parse(text).error).toBe('SERVICE_UNAVAILABLE');
    expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
    expect(world.failures.map(({ kind }) => kind)).toEqual(['storage']);
  });

  test.each([
    ['of the data folder', Object.assign(new Error('write'), { code: 'ENOSPC' })],
    [
      'of the database',
      new StoreUnavailable('committing failed', {
        cause: Object.assign(new Error('/secret/path'), { code: 'SQLITE_FULL' }),
      }),
    ],
    ['of PostgreSQL', new StoreUnavailable('x', { cause: Object.assign(new Error('x'), { code: '53100' }) })],
  ])('a full disk %s is said in words that give nothing away', async (_, error) => {
    const { response, text } = await answerOf(failingCore(error), get(`/cas/nodes/${HASH}/metadata`));
    expect([response.status, JSON.parse(text).error]).toEqual([503, 'SERVICE_UNAVAILABLE']);
    expect(JSON.parse(text).message).toStartWith("no space left on the server's disk: nothing is lost");
    expect(text).not.toContain('secret');
    expect(response.headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  });

  test('a registry that cannot be read is logged with the id the caller gets', async () => {
    const away = new ApiError('registry_unavailable', 'try again', { cause: new Error('the issuer hangs') });
    const { response, text } = await answerOf(failingCore(away), get(`/cas/nodes/${HASH}/metadata`));
    expect(response.status).toBe(503);
    expect(text).not.toContain('hangs');
    const [report] = world.failures;
    expect(report).toMatchObject({ kind: 'registry', error: away });
    expect(response.headers.get('x-request-id')).toBe(report?.requestId as string);
  });

  test('an ApiError keeps its status, headers and Retry-After', async () => {
    const options = { status: 416, retryAfterSeconds: 7, headers: { 'content-range': 'bytes */5' } };
    const core = failingCore(new ApiError('INVALID_REQUEST', 'range', options));
    const { response, text } = await answerOf(core, get(`/cas/nodes/${HASH}/content`));
    expect(response.status).toBe(416);
    expect(response.headers.get('content-range')).toBe('bytes */5');
    expect(response.headers.get('retry-after')).toBe('7');
    expect(JSON.parse(text)).toEqual({ error: 'INVALID_REQUEST', message: 'range' });
    expect(world.failures).toEqual([]);
  });

  test('a caller that left is no failure of the server', async () => {
    const abort = new AbortController();
    abort.abort();
    const request = new Request(`${SPACE_URL}/cas/usage`, { signal: abort.signal });
    await world.handler({ core: failingCore(new Error('broken off')) }).handle(request);
    expect(world.failures.map(({ kind }) => kind)).toEqual(['caller-gone']);
  });

  test('no report holds the URL, a header or the body of the request', async () => {
    const request = new Request('http://h/uploads/secret.c2VjcmV0', {
      method: 'PUT',
      headers: { authorization: 'Bearer secret' },
    });
    await world
      .handler({ core: { ...failingCore(new Error('x')), signer: undefined as never } })
      .handle(request);
    expect(world.failures).toHaveLength(1);
    expect(Bun.inspect(world.failures)).not.toMatch(/secret|c2VjcmV0/);
  });
});

describe('order of judging', () => {
  const refused = (): never => {
    throw new ApiError('insufficient_permission', 'no');
  };

  test.each([
    ['a bad hash', get('/cas/nodes/xyz/metadata')],
    ['an unknown query parameter', get('/cas/usage?a=1')],
    [
      'a bad body of a wrong media type',
      new Request(`${SPACE_URL}/root-refs`, { method: 'POST', body: '{' }),
    ],
    [
      'a body over the limit',
      new Request(`${SPACE_URL}/cas/gc`, {
        method: 'POST',
        headers: { 'content-length': '9999999' },
        body: 'x',
      }),
    ],
  ])('authorization comes before %s', async (_, request) => {
    expect((await world.handler({ authorize: refused }).handle(request)).status).toBe(403);
    expect((await world.handler().handle(request)).status).toBeOneOf([400, 413]);
  });

  test.each([
    ['POST', '/cas/usage'],
    ['DELETE', '/cas/usage'],
    ['GET', '/cas/gc'],
    ['GET', `/cas/nodes/${HASH}/lease`],
    ['PUT', `/cas/nodes/${HASH}/content`],
    ['GET', '/cas'],
    ['GET', '/cas/usage/'],
    ['GET', '/CAS/usage'],
  ])('%s %s is no route, whatever the token', async (method, path) => {
    const { response } = await answerOf(world.core, new Request(`${SPACE_URL}${path}`, { method }));
    expect(response.status).toBe(404);
    expect(world.authorized).toEqual([]);
  });
});

describe('load', () => {
  /** A handler that is busy with one request until `finish`. */
  function busyHandler(options: TenantShareOptions) {
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const metadata = {
      readClock: () => Date.now(),
      findNode: () => promise,
      findUpload: () => promise,
    } as unknown as MetadataStore;
    const shares = makeTenantShares({ waitMsMax: 5, ...options });
    const handler = world.handler({ core: { ...world.core, metadata }, shares });
    return { ...handler, finish: () => resolve(undefined) };
  }

  test('requests over the limit are told to come back, and are served once others are done', async () => {
    const { handle, finish } = busyHandler({ requestsMax: 1 });
    const first = handle(get(`/cas/nodes/${HASH}/metadata`));
    const second = await handle(get(`/cas/nodes/${HASH}/metadata`));
    expect(second.status).toBe(429);
    expect((await second.json()).error).toBe('RESOURCE_EXHAUSTED');
    expect(second.headers.get('retry-after')).toMatch(/^[1-9]/);
    expect((await handle(new Request('http://h/health'))).status).toBe(200);
    finish();
    expect((await first).status).toBe(404);
    expect((await handle(get(`/cas/nodes/${HASH}/metadata`))).status).toBe(404);
  });

  test('uploads have a limit of their own, which refuses no other request', async () => {
    const lease = await (await world.handler().handle(leaseRequest(HASH))).json();
    const { handle, finish } = busyHandler({ uploadsMax: 1 });
    const put = (): Request =>
      new Request(lease.upload.url, { method: 'PUT', headers: lease.upload.headers });
    const first = handle(put());
    expect((await handle(put())).status).toBe(429);
    const other = handle(get(`/cas/nodes/${HASH}/metadata`));
    finish();
    expect((await first).status).toBe(412);
    expect((await other).status).toBe(404);
    expect((await handle(put())).status).toBe(412);
  });
});

describe('until its capability is verified', () => {
  const OTHER_APP_URL = 'http://h/v1/apps/other/spaces/space/cas/usage';

  /** A handler whose verdicts wait for `end`, and what is held meanwhile. */
  function judgingHandler(trustedProxies = new TrustedProxies()) {
    const verdict = Promise.withResolvers<never>();
    verdict.promise.catch(() => undefined);
    const shares = makeTenantShares({ requestsMax: 8, bodyBytesMax: 4 * 1024 * 1024, waitMsMax: 5 });
    const { handle } = world.handler({ authorize: () => verdict.promise, shares, trustedProxies });
    const answers: Promise<Response>[] = [];
    const ask = (request: Request, address: string): void => {
      const connections: Connections = { timeout: () => undefined, requestIP: () => ({ address }) };
      answers.push(Promise.resolve(handle(request, connections)));
    };
    const end = async (): Promise<number[]> => {
      verdict.reject(new ApiError('invalid_token', 'planted'));
      return (await Promise.all(answers)).map(({ status }) => status);
    };
    return { shares, ask, end };
  }

  test('a request counts for its peer, and there for the App that it names', async () => {
    const { shares, ask, end } = judgingHandler();
    const isLetIn = (request: Request, address: string): boolean => {
      const before = shares.requests.used;
      ask(request, address);
      return shares.requests.used > before;
    };
    while (isLetIn(get('/cas/usage'), '192.0.2.1'));
    expect(shares.requests.used).toBeLessThan(8);
    expect(isLetIn(new Request(OTHER_APP_URL), '192.0.2.1')).toBe(true);
    expect(isLetIn(get('/cas/usage'), '192.0.2.2')).toBe(true);
    expect(await end()).toContain(401);
    expect(shares.requests.used).toBe(0);
  });

  test('its body counts for the same, by its declared length', async () => {
    const { shares, ask, end } = judgingHandler();
    const post = (): Request =>
      new Request(`${SPACE_URL}/root-refs`, {
        method: 'POST',
        headers: { 'content-length': String(1024 * 1024) },
        body: 'x',
      });
    for (let count = 0; count < 6; count += 1) ask(post(), '192.0.2.1');
    const crowd = shares.bodies.used;
    expect(crowd).toBeGreaterThan(0);
    expect(crowd).toBeLessThan(4 * 1024 * 1024);
    ask(post(), '192.0.2.2');
    expect(shares.bodies.used).toBe(crowd + 1024 * 1024);
    await end();
    expect(shares.bodies.used).toBe(0);
  });

  test('each peer behind a trusted proxy has a share of its own', async () => {
    const { shares, ask, end } = judgingHandler(new TrustedProxies(['10.0.0.1']));
    const from = (client: string): Request => get('/cas/usage', { 'x-forwarded-for': client });
    for (let count = 0; count < 8; count += 1) ask(from('192.0.2.1'), '10.0.0.1');
    const crowd = shares.requests.used;
    ask(from('192.0.2.2'), '10.0.0.1');
    expect(shares.requests.used).toBe(crowd + 1);
    await end();
  });
});

describe('patience', () => {
  /** A store that clients upload to themselves; it only signs URLs. */
  const direct = (): Core => {
    const upload: ContentUploads = {
      kind: 'direct',
      signUpload: async () => ({ url: 'http://store/key', headers: {} }),
      findBytes: async () => undefined,
    };
    const content = Object.assign(Object.create(world.core.content), {
      inspect: async () => ({ found: false }),
    });
    return { ...world.core, content: Object.defineProperty(content, 'upload', { value: upload }) };
  };

  test.each<[string, () => Core | undefined, () => Request, number[]]>([
    ['a lease that may have to read an upload', direct, () => leaseRequest('c'.repeat(64)), [240, 45]],
    ['a lease that has not', () => undefined, () => leaseRequest('d'.repeat(64)), []],
    ['a pass', () => undefined, () => new Request(`${SPACE_URL}/cas/gc`, { method: 'POST' }), [240, 45]],
  ])('the connection of %s waits as long as that may take', async (_, coreOf, requestOf, expected) => {
    const timeouts: number[] = [];
    const connections: Connections = {
      timeout: (_, seconds) => timeouts.push(seconds),
      requestIP: () => null,
    };
    const answer = await world.handler({ core: coreOf() ?? world.core }).handle(requestOf(), connections);
    expect(answer.status).toBe(200);
    expect(timeouts).toEqual(expected);
  });
});

describe('configuration', () => {
  test('with origins configured only they may read, and caches keep the answers apart', async () => {
    const { handle } = world.handler({ corsOrigins: ['https://app.example'] });
    const friend = await handle(get('/cas/usage', { origin: 'https://app.example' }));
    expect(friend.headers.get('access-control-allow-origin')).toBe('https://app.example');
    expect(friend.headers.get('access-control-expose-headers')).toContain('Content-Range');
    expect(friend.headers.get('vary')).toBe('Authorization, Origin');
    const stranger = await handle(get('/cas/usage', { origin: 'https://evil.example' }));
    expect(stranger.headers.get('access-control-allow-origin')).toBeNull();
    expect(stranger.headers.get('vary')).toBe('Authorization, Origin');
    expect(stranger.headers.get('timing-allow-origin')).toBe('*');
  });

  test('upload URLs begin with the public URL, else with the Host of the lease', async () => {
    const trustedProxies = new TrustedProxies(['10.0.0.1']);
    const urlOf = async (publicUrl: string | undefined, host: string, sender?: string): Promise<string> => {
      const request = leaseRequest('b'.repeat(64));
      request.headers.set('host', host);
      request.headers.set('x-forwarded-proto', 'https');
      const connections: Connections = {
        timeout: () => undefined,
        requestIP: () => (sender === undefined ? null : { address: sender }),
      };
      const { handle } = world.handler({ publicUrl, trustedProxies });
      return (await (await handle(request, connections)).json()).upload.url;
    };
    expect(await urlOf(undefined, 'cas.example', '10.0.0.1')).toStartWith('https://cas.example/uploads/');
    expect(await urlOf(undefined, 'cas.example', '10.0.0.2')).toStartWith('http://cas.example/uploads/');
    expect(await urlOf('http://x', 'cas.example', '10.0.0.1')).toStartWith('http://x/uploads/');
    expect(await urlOf('https://cas.example/base', 'h')).toStartWith('https://cas.example/base/uploads/');
    expect(await urlOf(undefined, 'box.lan:8420')).toStartWith('http://box.lan:8420/uploads/');
    expect(await urlOf(undefined, '[::1]:8420')).toStartWith('http://[::1]:8420/uploads/');
    expect(await urlOf(undefined, 'a/b?c')).toStartWith('http://h/uploads/');
  });

  test('health asks neither storage nor authorization, and is not timed', async () => {
    const { response, text } = await answerOf(failingCore(new Error('away')), new Request('http://h/health'));
    expect([response.status, text]).toEqual([200, '{"status":"ok"}']);
    expect(response.headers.get('server-timing')).toBeNull();
    expect(world.authorized).toEqual([]);
  });
});
