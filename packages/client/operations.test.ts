import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { until } from '../../test/support/until.ts';
import { CasError, type CasErrorCode } from './errors.ts';
import { createClient } from './index.ts';
import {
  BASE_URL,
  breakingBody,
  expectCasError,
  FakeSpace,
  failure,
  json,
  readAll,
  rejection,
  TOKEN,
  USAGE,
} from './test/fake-space-fixture.ts';

const HASH = 'a'.repeat(64);
const SPACE_URL = `${BASE_URL}/v1/apps/app%2F1/spaces/sp%C3%A4ce`;

describe('requests', () => {
  test('each operation goes where and as the table says', async () => {
    const space = new FakeSpace();
    const client = space.client();
    const hash = space.store('hello');
    const page = { refDomain: 'app', revision: 0, items: [], nextCursor: null };
    space.plant('usage', () => json(USAGE));
    space.plant('gc', () => json({ examined: 0, deleted: 0, reclaimedContentBytes: 0 }));
    space.plant('root-refs', () => json(page));
    space.plant('root-refs', () => json({ success: true, idempotent: false, revision: 1 }));
    const { body, bytes: _, ...part } = await client.readContent(hash, { range: { first: 1, last: 2 } });
    expect(part).toEqual({ contentType: 'text/plain', size: 5, start: 1, end: 3 });
    expect(new TextDecoder().decode(await readAll(body))).toBe('el');
    expect((await client.readMetadata(hash)).metadata.size).toBe(5);
    expect((await client.leaseNode(hash, { leaseDurationMs: 60_000 })).state).toBe('ready');
    expect(await client.getUsage()).toEqual(USAGE);
    await client.runGc({ maxNodes: 7 });
    expect(await client.listRootRefs({ limit: 5, cursor: 'a&b=c d' })).toEqual(page);
    await client.updateRootRefs({ requestId: 'one', changes: { [hash]: -1 } });
    expect(await client.health()).toEqual({ status: 'ok' });
    const sent = space.calls.map(({ method, url, headers, body }) => [
      `${method} ${url}`,
      headers.get('range') ?? headers.get('content-type') ?? '',
      new TextDecoder().decode(body),
    ]);
    expect(sent).toEqual([
      [`GET ${SPACE_URL}/cas/nodes/${hash}/content`, 'bytes=1-2', ''],
      [`GET ${SPACE_URL}/cas/nodes/${hash}/metadata`, '', ''],
      [`POST ${SPACE_URL}/cas/nodes/${hash}/lease`, 'application/json', '{"leaseDurationMs":60000}'],
      [`GET ${SPACE_URL}/cas/usage`, '', ''],
      [`POST ${SPACE_URL}/cas/gc`, 'application/json', '{"maxNodes":7}'],
      [`GET ${SPACE_URL}/root-refs?limit=5&cursor=a%26b%3Dc+d`, '', ''],
      [`POST ${SPACE_URL}/root-refs`, 'application/json', `{"requestId":"one","changes":{"${hash}":-1}}`],
      [`GET ${BASE_URL}/health`, '', ''],
    ]);
    const authorized = space.calls.map(({ headers }) => headers.get('authorization'));
    expect(authorized).toEqual([...Array(7).fill(`Bearer ${TOKEN}`), null]);
    expect(space.clock.runningLimits).toBe(0);
  });

  test('what could never succeed is refused before anything is sent', async () => {
    const space = new FakeSpace();
    for (const hash of ['', 'A'.repeat(64), '../../../usage', `${HASH}/x`]) {
      await expectCasError(space.client().readMetadata(hash), 'INVALID_ARGUMENT');
    }
    for (const range of [
      { first: -1 },
      { first: 2, last: 1 },
      { suffix: 0 },
      { first: 0.5 },
      { first: Number.NaN },
    ]) {
      await expectCasError(space.client().readContent(HASH, { range }), 'INVALID_ARGUMENT');
    }
    const options = { baseUrl: 'http://a.test', appId: 'a', spaceId: 's', token: 't' };
    for (const wrong of [
      { baseUrl: 'a.test' },
      { baseUrl: 'ftp://a.test' },
      { baseUrl: 'http://u@a.test' },
      { baseUrl: 'http://:p@a.test' },
      { baseUrl: 'http://a.test/?x' },
      { appId: '..' },
      { spaceId: '' },
      { spaceId: 'a\n' },
    ]) {
      expect(() => createClient({ ...options, ...wrong })).toThrow(CasError);
    }
    expect(space.calls).toEqual([]);
  });

  test('the token is asked for before each attempt and never shows in an error', async () => {
    const space = new FakeSpace();
    let asked = 0;
    const token = async () => {
      asked += 1;
      return asked === 1 ? 'stale' : TOKEN;
    };
    space.plant('metadata', () => failure(503, 'SERVICE_UNAVAILABLE'));
    const hash = space.store('hello');
    await space.client({ token }).readMetadata(hash);
    expect(asked).toBe(2);
    for (const bad of ['', 'two words', `${TOKEN}\r\nx: y`, undefined as never]) {
      const error = await expectCasError(space.client({ token: () => bad }).getUsage(), 'TOKEN_UNAVAILABLE');
      expect(`${error.message} ${error.stack}`).not.toContain(TOKEN);
    }
    const failing = () => Promise.reject(new Error('vault is sealed'));
    const error = await expectCasError(space.client({ token: failing }).getUsage(), 'TOKEN_UNAVAILABLE');
    expect((error.cause as Error).message).toBe('vault is sealed');
  });
});

describe('failures', () => {
  test('an error answer becomes a CasError with code, status and operation, after one attempt', async () => {
    for (const [status, code] of [
      [400, 'INVALID_REQUEST'],
      [401, 'invalid_token'],
      [403, 'insufficient_permission'],
      [404, 'NOT_FOUND'],
      [409, 'IDEMPOTENCY_CONFLICT'],
      [413, 'PAYLOAD_TOO_LARGE'],
    ] as const) {
      const space = new FakeSpace();
      space.plant('usage', () => failure(status, code));
      const error = await expectCasError(space.client().getUsage(), code);
      expect([error.status, error.requestOperation, error.retryAfterMs]).toEqual([
        status,
        'getUsage',
        undefined,
      ]);
      expect(error.message).toContain('planted');
      expect(space.calls.length).toBe(1);
    }
  });

  test('429 and 503 are tried again; Retry-After is honoured', async () => {
    const space = new FakeSpace();
    space.plant(
      'usage',
      () => failure(429, 'RESOURCE_EXHAUSTED', { 'retry-after': '3' }),
      () => failure(503, 'SERVICE_UNAVAILABLE'),
      () => {
        throw new TypeError('fetch failed');
      },
      () => json(USAGE),
    );
    expect(await space.client().getUsage()).toEqual(USAGE);
    expect(space.clock.waits).toEqual([3_100, 200, 400]);
  });

  test('a server that asks for a longer wait than allowed gets its error to the caller', async () => {
    const space = new FakeSpace();
    space.plant('lease', () => failure(429, 'CAS_UPLOAD_LIMIT', { 'retry-after': '300' }));
    const error = await expectCasError(
      space.client().leaseNode(HASH, { leaseDurationMs: 1 }),
      'CAS_UPLOAD_LIMIT',
    );
    expect([error.status, error.retryAfterMs]).toEqual([429, 300_000]);
    expect(space.clock.waits).toEqual([]);
  });

  test('attempts are bounded', async () => {
    const space = new FakeSpace();
    space.plant('usage', ...Array(9).fill(() => failure(503, 'registry_unavailable')));
    await expectCasError(space.client().getUsage(), 'registry_unavailable');
    expect(space.calls.length).toBe(4);
    await expectCasError(space.client({ retry: { attemptsMax: 1 } }).getUsage(), 'registry_unavailable');
    expect(space.calls.length).toBe(5);
  });

  test('a commit with a lost answer is sent again exactly', async () => {
    const space = new FakeSpace();
    space.plant(
      'root-refs',
      () => {
        throw new TypeError('socket hang up');
      },
      () => new Response(breakingBody(new TextEncoder().encode('{"succ')), { status: 200 }),
      () => json({ success: true, idempotent: true, revision: 4 }),
    );
    const changes: Record<string, number> = { [HASH]: 1 };
    const promise = space.client().updateRootRefs({ requestId: 'r', changes });
    changes[HASH] = 2;
    expect(await promise).toEqual({ success: true, idempotent: true, revision: 4 });
    const bodies = space.calls.map(({ body }) => new TextDecoder().decode(body));
    expect(bodies).toEqual(Array(3).fill(`{"requestId":"r","changes":{"${HASH}":1}}`));
  });

  test('answers that this API never gives', async () => {
    const planted: readonly [Response, CasErrorCode][] = [
      [new Response('<html>', { status: 200 }), 'MALFORMED_RESPONSE'],
      [new Response(new Uint8Array([0x22, 0xff, 0x22]), { status: 200 }), 'MALFORMED_RESPONSE'],
      [new Response(null, { status: 200 }), 'MALFORMED_RESPONSE'],
      [json({ ...USAGE, nodeCount: -1 }), 'MALFORMED_RESPONSE'],
      [json(USAGE, 201), 'MALFORMED_RESPONSE'],
      [new Response('not found', { status: 404 }), 'MALFORMED_RESPONSE'],
      [new Response(null, { status: 302, headers: { location: '/x' } }), 'MALFORMED_RESPONSE'],
      [new Response('x'.repeat(2 ** 20 + 1), { status: 200 }), 'RESPONSE_TOO_LARGE'],
      // JSON.parse takes 100 times the memory of such texts.
      [json({ ...USAGE, others: Array.from({ length: 70_000 }, () => []) }), 'MALFORMED_RESPONSE'],
      [json({ ...USAGE, others: JSON.parse('['.repeat(50) + ']'.repeat(50)) }), 'MALFORMED_RESPONSE'],
      [
        json({ error: 'NOT_FOUND', message: 'no', others: Array.from({ length: 70_000 }, () => []) }, 404),
        'MALFORMED_RESPONSE',
      ],
    ];
    for (const [answer, code] of planted) {
      const space = new FakeSpace();
      space.plant('usage', () => answer);
      await expectCasError(space.client().getUsage(), code);
      expect(space.calls.length).toBe(1);
    }
  });

  test('a body without end is not read to its end', async () => {
    let pulled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    const space = new FakeSpace();
    space.plant('usage', () => new Response(endless, { status: 200 }));
    await expectCasError(space.client().getUsage(), 'RESPONSE_TOO_LARGE');
    expect(pulled).toBeLessThan(32);
  });

  test('any bytes as an answer: a result or a CasError', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array(), fc.integer({ min: 200, max: 599 }), async (body, status) => {
        const space = new FakeSpace();
        const isBodyless = status === 204 || status === 205 || status === 304;
        space.plant(
          'usage',
          () => new Response(isBodyless ? null : (body as Uint8Array<ArrayBuffer>), { status }),
        );
        const client = space.client({ retry: { attemptsMax: 1 } });
        expect(await rejection(client.getUsage())).toBeInstanceOf(CasError);
      }),
    );
  });
});

describe('giving up', () => {
  const never = (): Promise<Response> => new Promise(() => undefined);
  /** Resolves once the fake was called `count` times. */
  async function called(space: FakeSpace, count: number): Promise<void> {
    await until(() => space.calls.length >= count);
    expect(space.calls.length).toBe(count);
  }

  test('a signal that fired already, while waiting for the answer, and between attempts', async () => {
    const reason = new Error('enough');
    const before = new FakeSpace();
    expect(await rejection(before.client().getUsage({ signal: AbortSignal.abort(reason) }))).toBe(reason);
    expect(before.calls).toEqual([]);

    const during = new FakeSpace();
    during.plant('usage', never);
    const controller = new AbortController();
    const waiting = rejection(during.client().getUsage({ signal: controller.signal }));
    await called(during, 1);
    controller.abort(reason);
    expect(await waiting).toBe(reason);
    expect(during.calls[0]?.signal?.aborted).toBe(true);
    expect(during.clock.runningLimits).toBe(0);

    const between = new FakeSpace();
    const other = new AbortController();
    between.plant('usage', () => {
      setTimeout(() => other.abort(reason), 5);
      return failure(503, 'SERVICE_UNAVAILABLE');
    });
    // A wait that would never end by itself.
    const clock = { now: () => 0, startTimer: () => () => undefined };
    expect(await rejection(between.client({ clock }).getUsage({ signal: other.signal }))).toBe(reason);
    expect(between.calls.length).toBe(1);
  });

  test('an attempt that takes too long is ended and tried again', async () => {
    const space = new FakeSpace();
    space.plant('usage', never, () => json(USAGE));
    const result = space.client().getUsage();
    await called(space, 1);
    space.clock.expire();
    expect(await result).toEqual(USAGE);
    expect(space.calls[0]?.signal?.aborted).toBe(true);
    space.plant('usage', never);
    const last = rejection(space.client({ retry: { attemptsMax: 1 } }).getUsage());
    await called(space, 3);
    space.clock.expire();
    expect(((await last) as CasError).code).toBe('TIMED_OUT');
  });

  test('content that falls silent, and content that is no longer wanted', async () => {
    const space = new FakeSpace();
    const silent = (): Response => {
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => controller.enqueue(new Uint8Array(2)),
      });
      return new Response(body, { headers: { 'content-length': '10', 'content-type': 'x/y' } });
    };
    space.plant('content', silent, silent);
    const reader = (await space.client().readContent(HASH)).body.getReader();
    expect((await reader.read()).value?.length).toBe(2);
    // Between two reads the caller may take its time: no limit runs.
    expect(space.clock.runningLimits).toBe(0);
    const next = rejection(reader.read());
    await Bun.sleep(1);
    expect(space.clock.runningLimits).toBe(1);
    space.clock.expire();
    expect(((await next) as CasError).code).toBe('TIMED_OUT');

    const controller = new AbortController();
    const { body } = await space.client().readContent(HASH, { signal: controller.signal });
    const aborted = body.getReader();
    await aborted.read();
    const reason = new Error('enough');
    const pending = rejection(aborted.read());
    controller.abort(reason);
    expect(await pending).toBe(reason);
  });
});
