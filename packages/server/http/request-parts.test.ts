/** The pure parts a request is taken apart with, and the timing of its steps. */
import { describe, expect, test } from 'bun:test';
import { JSON_BODY_BYTES_MAX } from '@holdfast/protocol';
import fc from 'fast-check';
import { splitUrl } from './exchange.ts';
import { originOf } from './peer.ts';
import { declaredLengthOf, withJsonBody, withOptionalJsonBody } from './request-body.ts';
import { RequestTiming } from './request-timing.ts';
import { makeTenantShares } from './tenant-shares.ts';

describe('URLs', () => {
  test('are split as the URL standard splits them, without decoding', () => {
    const segment = fc.string({ unit: 'grapheme-ascii', maxLength: 8 }).map(encodeURIComponent);
    fc.assert(
      fc.property(
        fc.constantFrom('http://h', 'http://h:1', 'https://[::1]:8420', 'http://user@h'),
        fc.array(segment, { maxLength: 4 }),
        fc.option(segment),
        (origin, segments, query) => {
          const text = `${origin}/${segments.join('/')}${query === null ? '' : `?${query}`}`;
          const url = new URL(text);
          const target = splitUrl(url.href);
          expect(target.path).toBe(url.pathname);
          expect(target.query ?? '').toBe(url.search.slice(1));
          expect(target.query === undefined).toBe(!url.href.includes('?'));
        },
      ),
    );
  });

  test('a bare path is accepted, because a request without a usable Host has nothing more', () => {
    expect(splitUrl('/health')).toEqual({ path: '/health', query: undefined });
    expect(splitUrl('/a//b?c?d')).toEqual({ path: '/a//b', query: 'c?d' });
    expect(splitUrl('http://h')).toEqual({ path: '/', query: undefined });
  });

  test('no odd Host makes an upload origin that leads elsewhere', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme-ascii' }), (host) => {
        const headers = new Headers();
        try {
          headers.set('host', host);
        } catch {
          return;
        }
        const origin = originOf(new Request('http://listener:1/x', { headers }), 'http');
        expect(origin).toMatch(/^http:\/\/[A-Za-z0-9._~:[\]-]+$/);
      }),
    );
  });
});

describe('JSON bodies', () => {
  const post = (body: BodyInit | null, headers: Record<string, string> = {}) => ({
    request: new Request('http://h/', { method: 'POST', body, headers, duplex: 'half' } as RequestInit),
    receivedBytes: 0,
  });
  const owner = { shares: makeTenantShares(), space: { appId: 'app', spaceId: 'space' } };
  type Post = ReturnType<typeof post>;
  const readJsonBody = async (exchange: Post) => withJsonBody(exchange, owner, (bytes) => bytes.slice());
  const readOptionalJsonBody = (exchange: Post) =>
    withOptionalJsonBody(exchange, owner, (bytes) => bytes.slice());
  const json = { 'content-type': 'application/json' };

  /** A body without a length, as chunked transfer gives it; `taken` counts what was read of it. */
  function chunked(bytes: number, state: { taken: number }): ReadableStream<Uint8Array> {
    const pieceBytes = 64 * 1024;
    return new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          if (state.taken >= bytes) return controller.close();
          controller.enqueue(new Uint8Array(Math.min(pieceBytes, bytes - state.taken)).fill(0x20));
          state.taken += pieceBytes;
        },
      },
      { highWaterMark: 0 },
    );
  }

  test.each([
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;charset="x"',
    ' application/json ;a=b',
  ])('the media type %p is JSON', async (type) => {
    expect(await readJsonBody(post('{}', { 'content-type': type }))).toEqual(new Uint8Array([0x7b, 0x7d]));
  });

  test.each([
    'text/json',
    'application/jsonx',
    'application/vnd.api+json',
    'text/plain',
    'application/json, text/html',
  ])('the media type %p is not', async (type) => {
    await expect(readJsonBody(post('{}', { 'content-type': type }))).rejects.toThrow('application/json');
    await expect(readOptionalJsonBody(post('{}', { 'content-type': type }))).rejects.toThrow(
      'application/json',
    );
  });

  test('an optional body needs no media type while it is empty', async () => {
    for (const body of [null, '']) {
      expect(await readOptionalJsonBody(post(body))).toHaveLength(0);
      expect(await readOptionalJsonBody(post(body, { 'content-type': 'text/plain' }))).toHaveLength(0);
    }
    expect(await readOptionalJsonBody(post(chunked(0, { taken: 0 })))).toHaveLength(0);
  });

  test('exactly the limit is read, one byte more is not, declared or counted', async () => {
    const exact = 'x'.repeat(JSON_BODY_BYTES_MAX);
    const length = (text: string) => ({ ...json, 'content-length': String(text.length) });
    expect(await readJsonBody(post(exact, length(exact)))).toHaveLength(JSON_BODY_BYTES_MAX);
    await expect(readJsonBody(post(`${exact}x`, length(`${exact}x`)))).rejects.toMatchObject({ status: 413 });
    expect(await readJsonBody(post(chunked(JSON_BODY_BYTES_MAX, { taken: 0 }), json))).toHaveLength(
      JSON_BODY_BYTES_MAX,
    );
    const endless = { taken: 0 };
    const tooMuch = readJsonBody(post(chunked(100 * JSON_BODY_BYTES_MAX, endless), json));
    await expect(tooMuch).rejects.toMatchObject({ status: 413 });
    expect(endless.taken).toBeLessThan(2 * JSON_BODY_BYTES_MAX);
    expect(owner.shares.bodies.used).toBe(0);
  });

  test('large ones that have come at once are taken apart one in each round of the event loop', async () => {
    const text = 'x'.repeat(JSON_BODY_BYTES_MAX);
    const headers = { ...json, 'content-length': String(text.length) };
    let round = 0;
    let isOver = false;
    const count = (): void => {
      round += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const rounds = await Promise.all(
      Array.from({ length: 8 }, () => withJsonBody(post(text, headers), owner, () => round)),
    );
    isOver = true;
    expect(new Set(rounds).size).toBe(8);
  });

  test('one that waited in vain for room gives back at once what has come of it', async () => {
    const crowded = {
      ...owner,
      shares: makeTenantShares({ bodyBytesMax: JSON_BODY_BYTES_MAX, waitMsMax: 1 }),
    };
    const hold = await crowded.shares.bodies.acquire('other', 'space', JSON_BODY_BYTES_MAX);
    let isDropped = false;
    const cancel = (): void => {
      isDropped = true;
    };
    const refused = withJsonBody(post(new ReadableStream({ cancel }), json), crowded, () => 0);
    await expect(refused).rejects.toMatchObject({ status: 429 });
    hold.release();
    expect(isDropped).toBe(true);
  });

  test.each([
    [1, 32],
    [4, 8],
  ])('of those that wait, %d processes keep no more in memory than one', async (processes, waitingMax) => {
    const { bodies } = makeTenantShares({ processes, waitMsMax: 1 });
    const hold = await bodies.acquire('other', 'space', bodies.capacity);
    const claims: Promise<unknown>[] = [];
    const claim = (): void => void claims.push(Promise.resolve(bodies.acquire('app', 'space', 1)));
    for (let count = 0; count < waitingMax; count += 1) claim();
    expect(claim).toThrow();
    await Promise.allSettled(claims);
    hold.release();
  });

  test('only a plain number is a declared length', () => {
    const lengthOf = (value: string) => declaredLengthOf(post(null, { 'content-length': value }).request);
    expect(lengthOf('0')).toBe(0);
    expect(lengthOf('33554432')).toBe(33_554_432);
    for (const odd of ['-1', '1e3', '0x10', '1.5', '9'.repeat(16)]) expect(lengthOf(odd)).toBeUndefined();
    expect(declaredLengthOf(post(null).request)).toBeUndefined();
  });
});

describe('Server-Timing', () => {
  test('names each step once, with the sum of its calls', async () => {
    const timing = new RequestTiming();
    timing.measure('cas_auth', () => 1);
    const pending = timing.measure('cas_meta_find_node', () => Bun.sleep(20));
    await Promise.all([pending, timing.measure('cas_meta_find_node', () => Bun.sleep(10))]);
    const header = timing.render();
    expect(header).toMatch(
      /^cas_edge;dur=\d+\.\d{3}, cas_auth;dur=\d+\.\d{3}, cas_meta_find_node;dur=\d+\.\d{3};desc="2 calls"$/,
    );
    const duration = Number(/find_node;dur=([\d.]+)/.exec(header)?.[1]);
    // The sum of both sleeps in milliseconds: another unit would give 30,000 or 0.03.
    expect(duration).toBeGreaterThan(28);
    expect(duration).toBeLessThan(20_000);
  });

  test('a step that fails at once or later is counted, and its failure is passed on', async () => {
    const timing = new RequestTiming();
    const fail = (): never => {
      throw new Error('no');
    };
    expect(() => timing.measure('cas_meta_transact', fail)).toThrow('no');
    const rejected = timing.measure('cas_meta_transact', () => Promise.reject(new Error('late')));
    await expect(rejected).rejects.toThrow('late');
    expect(timing.render()).toContain('cas_meta_transact;dur=');
    expect(timing.render()).toContain('desc="2 calls"');
  });

  test('returns the very promise it was given', () => {
    const promise = Promise.resolve(1);
    expect(new RequestTiming().watch('cas_content_open', 0, promise)).toBe(promise);
  });
});
