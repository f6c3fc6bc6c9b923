import { describe, expect, test } from 'bun:test';
import { CasError } from '../errors.ts';
import { BULK_PROBE_PAUSE_MS } from '../limits.ts';
import { BASE_URL, expectCasError, FakeSpace, failure, json, TOKEN } from '../test/fake-space-fixture.ts';

const ROOT = `${BASE_URL}/bulk/v1/apps/app%2F1/spaces/sp%C3%A4ce`;
const A = 'a'.repeat(64);
const B = 'b'.repeat(64);
const C = 'c'.repeat(64);
const ID = '0f'.repeat(16);
const PACK = {
  id: ID,
  method: 'PUT' as const,
  url: 'http://store.test/uploads/pack',
  expiresAt: 5,
  headers: { 'content-type': 'application/vnd.holdfast.cas-pack.v1', 'if-none-match': '*' },
  bytesMax: 67_108_864,
  recordsMax: 4096,
};
const READY = { state: 'ready' as const, hash: A, leaseStartedAt: 1, leaseExpiresAt: 2 };
const WAITING = { state: 'validated_awaiting_children' as const, hash: B, childHashes: [C] };
const ABSENT = { state: 'absent' as const, hash: C };
const REJECTED = {
  state: 'rejected' as const,
  hash: C,
  rejection: { code: 'NODE_DIGEST_MISMATCH' as const, message: 'm' },
};
const LEASE = { leaseDurationMs: 60_000 };

describe('requests', () => {
  test('go where and as the table says', async () => {
    const space = new FakeSpace();
    const { bulk } = space.client();
    space.plant('leases', () => json({ results: [READY, WAITING, ABSENT], pack: PACK }));
    space.plant('leases', () => json({ results: [READY] }, 200, { 'holdfast-rotten-nodes': '3' }));
    space.plant('upload', () => new Response(null));
    space.plant('lease', () =>
      json({ results: [READY, REJECTED, ABSENT], broken: { byte: 8, message: 'x' } }),
    );
    expect(await bulk.leaseNodes([A, B, C], { ...LEASE, pack: true })).toEqual({
      results: [READY, WAITING, ABSENT],
      pack: PACK,
    });
    expect(await bulk.leaseNodes([A], LEASE)).toEqual({ results: [READY], rottenNodes: 3 });
    expect(await bulk.uploadPack(PACK, Uint8Array.of(1, 2, 3))).toBe('accepted');
    expect(await bulk.leasePack(ID, LEASE)).toEqual({
      results: [READY, REJECTED, ABSENT],
      broken: { byte: 8, message: 'x' },
    });
    const sent = space.calls.map(({ method, url, headers, body }) => [
      `${method} ${url}`,
      headers.get('content-type'),
      headers.get('authorization'),
      new TextDecoder().decode(body),
    ]);
    const bearer = `Bearer ${TOKEN}`;
    expect(sent).toEqual([
      [
        `POST ${ROOT}/leases`,
        'application/json',
        bearer,
        `{"leaseDurationMs":60000,"hashes":["${A}","${B}","${C}"],"pack":true}`,
      ],
      [`POST ${ROOT}/leases`, 'application/json', bearer, `{"leaseDurationMs":60000,"hashes":["${A}"]}`],
      ['PUT http://store.test/uploads/pack', PACK.headers['content-type'], null, '\u0001\u0002\u0003'],
      [`POST ${ROOT}/packs/${ID}/lease`, 'application/json', bearer, '{"leaseDurationMs":60000}'],
    ]);
    expect(space.clock.runningLimits).toBe(0);
  });

  test('what could never succeed is refused before anything is sent', async () => {
    const space = new FakeSpace();
    const { bulk } = space.client();
    const many = Array.from({ length: 4097 }, (_, index) => index.toString(16).padStart(64, '0'));
    for (const hashes of [[], [A, A], ['x'], [A.toUpperCase()], many]) {
      await expectCasError(bulk.leaseNodes(hashes, LEASE), 'INVALID_ARGUMENT');
      await expectCasError(bulk.readNodes(hashes).next(), 'INVALID_ARGUMENT');
    }
    for (const id of ['', '..', 'a\n']) await expectCasError(bulk.leasePack(id, LEASE), 'INVALID_ARGUMENT');
    expect(space.calls).toEqual([]);
  });

  test('each is tried again after a failure that may pass', async () => {
    const space = new FakeSpace();
    const { bulk } = space.client();
    space.plant(
      'leases',
      () => failure(503, 'SERVICE_UNAVAILABLE'),
      () => json({ results: [READY] }),
    );
    space.plant(
      'lease',
      () => failure(429, 'RESOURCE_EXHAUSTED', { 'retry-after': '1' }),
      () => json({ results: [] }),
    );
    expect((await bulk.leaseNodes([A], LEASE)).results).toEqual([READY]);
    expect(await bulk.leasePack(ID, LEASE)).toEqual({ results: [] });
    expect(space.calls).toHaveLength(4);
    space.plant('lease', () => failure(429, 'RESOURCE_EXHAUSTED'));
    await expectCasError(bulk.leasePack(ID, LEASE), 'RESOURCE_EXHAUSTED');
    expect(space.calls).toHaveLength(5);
  });
});

describe('an answer that Bulk never gives', () => {
  const results = [READY, WAITING, ABSENT];
  const pack = (change: object) => ({ results, pack: { ...PACK, ...change } });
  test.each<[string, unknown]>([
    ['no object', []],
    ['no results', {}],
    ['a result too few', { results: results.slice(0, 2) }],
    ['a result too many', { results: [...results, READY] }],
    ['results in another order', { results: [WAITING, READY, ABSENT] }],
    ['another hash', { results: [{ ...READY, hash: C }, WAITING, ABSENT] }],
    ['a state of single leases', { results: [{ ...READY, state: 'awaiting_upload' }, WAITING, ABSENT] }],
    ['a state of pack leases', { results: [READY, WAITING, REJECTED] }],
    ['ready without its lease', { results: [{ state: 'ready', hash: A }, WAITING, ABSENT] }],
    ['waiting for nothing', { results: [READY, { ...WAITING, childHashes: [] }, ABSENT] }],
    ['a pack of no form', { results, pack: null }],
    ['a pack without id', pack({ id: '' })],
    ['an id that no path can carry', pack({ id: '..' })],
    ['an address that is none', pack({ url: 'file:///etc/passwd' })],
    ['another method', pack({ method: 'POST' })],
    ['headers that are none', pack({ headers: { 'a b': 'c' } })],
    ['no bound of bytes', pack({ bytesMax: undefined })],
    ['a bound of records that is no number', pack({ recordsMax: '5' })],
  ])('leaseNodes: %s', async (_, answer) => {
    const space = new FakeSpace();
    space.plant('leases', () => json(answer));
    await expectCasError(space.client().bulk.leaseNodes([A, B, C], LEASE), 'MALFORMED_RESPONSE');
  });

  test.each<[string, unknown]>([
    ['no results', { broken: { byte: 1, message: 'x' } }],
    ['4,097 results', { results: Array(4097).fill(READY) }],
    ['a rejection without its code', { results: [{ ...REJECTED, rejection: { message: 'm' } }] }],
    [
      'a code that is no rejection',
      { results: [{ ...REJECTED, rejection: { code: 'CONFLICT', message: 'm' } }] },
    ],
    ['a result without hash', { results: [{ ...READY, hash: undefined }] }],
    ['a fault without place', { results: [], broken: { message: 'm' } }],
    ['a fault without words', { results: [], broken: { byte: 0, message: '' } }],
  ])('leasePack: %s', async (_, answer) => {
    const space = new FakeSpace();
    space.plant('lease', () => json(answer));
    await expectCasError(space.client().bulk.leasePack(ID, LEASE), 'MALFORMED_RESPONSE');
  });

  test('an answer over 8 MiB is not read to its end, one of 4,096 long messages is', async () => {
    const space = new FakeSpace();
    const message = 'm'.repeat(1000);
    const long = { ...REJECTED, rejection: { code: 'NODE_CONFLICT' as const, message } };
    space.plant('lease', () => json({ results: Array(4096).fill(long) }));
    expect((await space.client().bulk.leasePack(ID, LEASE)).results).toHaveLength(4096);
    space.plant('lease', () => json({ results: [], more: 'm'.repeat(9_000_000) }));
    await expectCasError(space.client().bulk.leasePack(ID, LEASE), 'RESPONSE_TOO_LARGE');
  });
});

describe('the instruction for a pack', () => {
  test('that leads from https to http, or has foreign headers for another host, is refused', async () => {
    const space = new FakeSpace();
    space.plant('leases', () => json({ results: [ABSENT], pack: PACK }));
    const secure = space.client({ baseUrl: 'https://space.test' });
    const error = await expectCasError(
      secure.bulk.leaseNodes([C], { ...LEASE, pack: true }),
      'UPLOAD_REFUSED',
    );
    expect(error.message).toMatch(/^leaseNodes: .*in the clear/);
    const headers = { ...PACK.headers, authorization: 'x' };
    space.plant('leases', () => json({ results: [ABSENT], pack: { ...PACK, headers } }));
    await expectCasError(space.client().bulk.leaseNodes([C], { ...LEASE, pack: true }), 'UPLOAD_REFUSED');
  });

  test.each([403, 409, 412])('answered with %d is over: the lease of the pack tells', async (status) => {
    const space = new FakeSpace();
    space.plant('upload', () => new Response('<Error/>', { status }));
    expect(await space.client().bulk.uploadPack(PACK, new Uint8Array(8))).toBe('superseded');
    expect(space.calls).toHaveLength(1);
  });

  test('whose target refuses the pack', async () => {
    const space = new FakeSpace();
    space.plant('upload', () => failure(413, 'PAYLOAD_TOO_LARGE'));
    await expectCasError(space.client().bulk.uploadPack(PACK, new Uint8Array(8)), 'PAYLOAD_TOO_LARGE');
    space.plant('upload', () => new Response('<Error/>', { status: 400 }));
    const error = await expectCasError(
      space.client().bulk.uploadPack(PACK, new Uint8Array(8)),
      'UPLOAD_REFUSED',
    );
    expect(error.message).toMatch(/^uploadPack: /);
  });
});

describe('a server without Bulk', () => {
  // The answers of an older server, and of a proxy that knows /v1 alone.
  test.each([() => failure(404, 'NOT_FOUND'), () => new Response('<html>', { status: 404 })])(
    'is asked once, and after a pause again',
    async (answer) => {
      const space = new FakeSpace();
      const { bulk } = space.client();
      expect(bulk.isOffered).toBe(true);
      space.plant('leases', answer);
      const error = await expectCasError(bulk.leaseNodes([A], LEASE), 'BULK_UNAVAILABLE');
      expect(error.message).toMatch(/use the operations on single nodes/);
      expect(bulk.isOffered).toBe(false);
      await expectCasError(bulk.leaseNodes([A], LEASE), 'BULK_UNAVAILABLE');
      await expectCasError(bulk.readNodes([A]).next(), 'BULK_UNAVAILABLE');
      expect(space.calls).toHaveLength(1);
      space.clock.startTimer(BULK_PROBE_PAUSE_MS, () => undefined)();
      expect(bulk.isOffered).toBe(true);
      space.plant('leases', () => json({ results: [READY] }));
      expect((await bulk.leaseNodes([A], LEASE)).results).toEqual([READY]);
      expect(bulk.isOffered).toBe(true);
    },
  );

  test('is found by reading too', async () => {
    const space = new FakeSpace();
    const { bulk } = space.client();
    await expectCasError(bulk.readNodes([A]).next(), 'BULK_UNAVAILABLE');
    expect(bulk.isOffered).toBe(false);
  });

  test('is not what an unknown pack means', async () => {
    const space = new FakeSpace();
    const { bulk } = space.client();
    space.plant('lease', () => failure(404, 'NOT_FOUND'));
    await expectCasError(bulk.leasePack(ID, LEASE), 'NOT_FOUND');
    expect(bulk.isOffered).toBe(true);
  });

  test('and other failures are not taken for it', async () => {
    const space = new FakeSpace();
    const { bulk } = space.client({ retry: { attemptsMax: 1 } });
    for (const [status, code] of [
      [403, 'insufficient_permission'],
      [503, 'SERVICE_UNAVAILABLE'],
      [400, 'INVALID_REQUEST'],
    ] as const) {
      space.plant('leases', () => failure(status, code));
      const error = await expectCasError(bulk.leaseNodes([A], LEASE), code);
      expect(error).toBeInstanceOf(CasError);
    }
    expect(bulk.isOffered).toBe(true);
  });
});
