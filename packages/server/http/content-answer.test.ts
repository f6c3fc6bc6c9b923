/** Bodies of content reads: whole, in parts, spooled, and not read at all. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ApiError } from '@holdfast/protocol';
import { seededBytes } from '../../../test/support/canonical-node.ts';
import type { ContentStore, OpenContent } from '../core/ports.ts';
import { type ContentSpool, openFileSpool } from './content-spool.ts';
import type { StreamWatch } from './content-stream.ts';
import type { Connections } from './exchange.ts';
import { BUFFERED_ANSWERS_MAX } from './http-limits.ts';
import { type HandlerWorld, openHandlerWorld, SPACE_URL } from './test/handler-fixture.ts';

const MIB = 1024 * 1024;
const CONTENT_BYTES = 10 * MIB;

let world: HandlerWorld;
let hash: string;
const content = seededBytes(CONTENT_BYTES, 7);

beforeAll(async () => {
  world = await openHandlerWorld();
  hash = await world.store(content);
});

afterAll(() => world.close());

function read(range?: string, method = 'GET', open?: ContentStore['open']): Promise<Response> {
  const core = open === undefined ? world.core : { ...world.core, content: withOpen(open) };
  const headers: Record<string, string> = range === undefined ? {} : { range };
  const url = `${SPACE_URL}/cas/nodes/${hash}/content`;
  return Promise.resolve(world.handler({ core }).handle(new Request(url, { method, headers })));
}

/** The real content store with another way to open objects. */
function withOpen(open: ContentStore['open']): ContentStore {
  return new Proxy(world.core.content, {
    get: (target, name) => {
      if (name === 'open') return open;
      const value = Reflect.get(target, name, target) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** Pieces of `bytes` that are given when asked for; `asked` counts. */
function streamOf(bytes: Uint8Array, pieceBytes: number, failAt = Number.POSITIVE_INFINITY) {
  let at = 0;
  const state = { asked: 0, isCancelled: false };
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        state.asked += 1;
        if (at >= failAt) return controller.error(Object.assign(new Error('gone'), { code: 'EIO' }));
        controller.enqueue(bytes.subarray(at, at + pieceBytes));
        at += pieceBytes;
        if (at >= bytes.length) controller.close();
      },
      cancel() {
        state.isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, state };
}

const opening =
  (body: OpenContent['body']): ContentStore['open'] =>
  async () => ({ body });

describe('content', () => {
  test('headers of a whole read', async () => {
    const response = await read();
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'accept-ranges': 'bytes',
      'content-length': String(CONTENT_BYTES),
      'content-type': 'text/plain',
      'cache-control': 'private, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'",
      vary: 'Authorization',
    });
    expect(response.headers.get('etag')).toBeNull();
    expect(response.headers.get('server-timing')).toMatch(/cas_content_[a-z_]+;dur=/);
    expect(Buffer.compare(await response.bytes(), content)).toBe(0);
  });

  test.each([
    ['bytes=0-0', 0, 1],
    [`bytes=${MIB}-${9 * MIB + 5}`, MIB, 9 * MIB + 6],
    ['bytes=-3', CONTENT_BYTES - 3, CONTENT_BYTES],
    [`bytes=5-${2 ** 50}`, 5, CONTENT_BYTES],
  ])('%s', async (range, start, end) => {
    const response = await read(range);
    expect(response.status).toBe(206);
    expect(response.headers.get('content-range')).toBe(`bytes ${start}-${end - 1}/${CONTENT_BYTES}`);
    expect(response.headers.get('content-length')).toBe(String(end - start));
    expect(Buffer.compare(await response.bytes(), content.subarray(start, end))).toBe(0);
  });

  test('HEAD says what GET says and reads nothing more than the opening does', async () => {
    const { stream, state } = streamOf(content, MIB);
    const response = await read('bytes=1-', 'HEAD', opening(stream));
    expect(response.status).toBe(206);
    expect(response.headers.get('content-length')).toBe(String(CONTENT_BYTES - 1));
    expect((await response.bytes()).length).toBe(0);
    expect(state).toEqual({ asked: 0, isCancelled: true });
  });
});

describe('a store that streams', () => {
  test.each([
    ['in memory', 8 * MIB],
    ['through the spool', CONTENT_BYTES],
  ])('is answered %s with its length', async (_, length) => {
    const { stream } = streamOf(content.subarray(0, length), MIB);
    const response = await read(`bytes=0-${length - 1}`, 'GET', opening(stream));
    expect(response.status).toBe(206);
    expect(response.headers.get('content-length')).toBe(String(length));
    expect(Buffer.compare(await response.bytes(), content.subarray(0, length))).toBe(0);
  });

  test.each([
    ['in memory', 2 * MIB],
    ['in the spool', CONTENT_BYTES],
  ])('a failure in the middle, %s, is an error from the first byte on', async (_, length) => {
    const { stream } = streamOf(content, MIB, MIB);
    const response = await read(`bytes=0-${length - 1}`, 'GET', opening(stream));
    expect(response.status).toBe(503);
  });

  test.each([
    ['too short, in memory', 2 * MIB, MIB],
    ['too long, in memory', 2 * MIB, 3 * MIB],
    ['too short, in the spool', CONTENT_BYTES, 9 * MIB],
    ['too short at once', 100, 99],
  ])('bytes of another length are never sent: %s', async (_, length, given) => {
    const bytes = content.slice(0, given);
    const body = given < MIB ? bytes : streamOf(bytes, MIB).stream;
    const response = await read(`bytes=0-${length - 1}`, 'GET', opening(body));
    expect(response.status).toBe(500);
  });
});

describe('a caller that goes away', () => {
  /** A stream that gives one piece and then nothing, as a store that is slow. */
  function stalling() {
    const state = { isCancelled: false };
    const asked = Promise.withResolvers<void>();
    const stream = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          if (controller.desiredSize !== null) controller.enqueue(content.slice(0, MIB));
          asked.resolve();
          return new Promise<void>(() => undefined);
        },
        cancel() {
          state.isCancelled = true;
        },
      },
      { highWaterMark: 0 },
    );
    return { stream, state, asked: asked.promise };
  }

  test.each([
    ['in memory', 4 * MIB],
    ['in the spool', CONTENT_BYTES],
  ])('ends what the store sends: %s', async (_, length) => {
    const { stream, state, asked } = stalling();
    const gone = new AbortController();
    const core = { ...world.core, content: withOpen(opening(stream)) };
    const request = new Request(`${SPACE_URL}/cas/nodes/${hash}/content`, {
      headers: { range: `bytes=0-${length - 1}` },
      signal: gone.signal,
    });
    const answer = Promise.resolve(world.handler({ core }).handle(request));
    await asked;
    expect(state.isCancelled).toBe(false);
    gone.abort();
    await answer;
    expect(state.isCancelled).toBe(true);
    expect(world.failures.at(-1)?.kind).toBe('caller-gone');
  });

  test('before the store has opened: nothing is read', async () => {
    const { stream, state } = streamOf(content, MIB);
    const gone = new AbortController();
    const core = {
      ...world.core,
      content: withOpen(async () => {
        gone.abort();
        return { body: stream };
      }),
    };
    const request = new Request(`${SPACE_URL}/cas/nodes/${hash}/content`, { signal: gone.signal });
    await world.handler({ core }).handle(request);
    expect(state).toEqual({ asked: 0, isCancelled: true });
  });
});

describe('memory', () => {
  test('many answers being sent: the next goes through a file, a small one does not', async () => {
    let pendingRequests = BUFFERED_ANSWERS_MAX;
    let spooled = 0;
    const { spool } = world.options;
    const counting: ContentSpool = {
      hold(...args) {
        spooled += 1;
        return spool.hold(...args);
      },
    };
    const ask = async (length: number): Promise<void> => {
      const bytes = content.slice(0, length);
      const core = { ...world.core, content: withOpen(opening(streamOf(bytes, MIB).stream)) };
      const connections: Connections = { timeout: () => undefined, pendingRequests };
      const request = new Request(`${SPACE_URL}/cas/nodes/${hash}/content`, {
        headers: { range: `bytes=0-${length - 1}` },
      });
      const answer = await world.handler({ core, spool: counting }).handle(request, connections);
      expect(Buffer.compare(await answer.bytes(), bytes)).toBe(0);
    };
    await ask(MIB);
    expect(spooled).toBe(0);
    // One of those pending is this request itself.
    pendingRequests += 1;
    await ask(MIB);
    expect(spooled).toBe(1);
    await ask(64 * 1024);
    expect(spooled).toBe(1);
  });

  test('answers being gathered count too, until they are whole or have failed', async () => {
    const waiting: (() => void)[] = [];
    let spooled = 0;
    const spool: ContentSpool = {
      hold: async () => {
        spooled += 1;
        return new Blob([content.slice(0, MIB)]);
      },
    };
    const open: ContentStore['open'] = async () => ({
      body: new ReadableStream<Uint8Array>(
        {
          async pull(controller) {
            await new Promise<void>((resolve) => waiting.push(resolve));
            controller.error(Object.assign(new Error('gone'), { code: 'EIO' }));
          },
        },
        { highWaterMark: 0 },
      ),
    });
    const handler = world.handler({ core: { ...world.core, content: withOpen(open) }, spool });
    const ask = (): Promise<Response> => {
      const headers = { range: `bytes=0-${MIB - 1}` };
      return Promise.resolve(
        handler.handle(new Request(`${SPACE_URL}/cas/nodes/${hash}/content`, { headers })),
      );
    };
    const gathering = Array.from({ length: BUFFERED_ANSWERS_MAX }, ask);
    while (waiting.length < BUFFERED_ANSWERS_MAX) await Bun.sleep(1);
    expect((await ask()).status).toBe(206);
    expect(spooled).toBe(1);
    for (const fail of waiting.splice(0)) fail();
    for (const answer of await Promise.all(gathering)) expect(answer.status).toBe(503);
    const next = ask();
    while (waiting.length === 0) await Bun.sleep(1);
    expect(spooled).toBe(1);
    waiting[0]?.();
    expect((await next).status).toBe(503);
  });
});

describe('the spool', () => {
  let folder: string;
  let spool: ContentSpool;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-spool-'));
    await Bun.write(join(folder, 'of an earlier life'), 'x');
    spool = await openFileSpool(folder);
  });

  afterAll(() => rm(folder, { recursive: true, force: true }));

  const watch = (signal = new AbortController().signal): StreamWatch => ({
    signal,
    onProgress: () => undefined,
  });

  test('begins empty, and keeps nothing of what failed', async () => {
    expect(await readdir(folder)).toEqual([]);
    await expect(spool.hold(streamOf(content, MIB, MIB).stream, CONTENT_BYTES, watch())).rejects.toThrow(
      'gone',
    );
    await expect(spool.hold(streamOf(content, MIB).stream, CONTENT_BYTES + 1, watch())).rejects.toThrow(
      'came as',
    );
    await expect(spool.hold(streamOf(content, MIB).stream, CONTENT_BYTES - 1, watch())).rejects.toThrow(
      'came as',
    );
    expect(await readdir(folder)).toEqual([]);
  });

  test('holds exactly the bytes, and forgets them', async () => {
    const blob = await spool.hold(streamOf(content, MIB).stream, CONTENT_BYTES, watch());
    expect(Buffer.compare(await blob.bytes(), content)).toBe(0);
    const deadline = Date.now() + 10_000;
    while ((await readdir(folder)).length > 0 && Date.now() < deadline) await Bun.sleep(100);
    expect(await readdir(folder)).toEqual([]);
  });

  test('has room for so many bytes at once, and again for those whose file was closed', async () => {
    const narrow = await openFileSpool(join(folder, 'narrow'), 2 * CONTENT_BYTES);
    const hold = () => narrow.hold(streamOf(content, MIB).stream, CONTENT_BYTES, watch());
    const results = await Promise.allSettled([hold(), hold(), hold()]);
    const refused = results.filter(({ status }) => status === 'rejected');
    expect(refused).toEqual([{ status: 'rejected', reason: expect.any(ApiError) }]);
    expect((refused[0] as PromiseRejectedResult).reason).toMatchObject({ status: 503, retryAfterSeconds: 1 });
    const deadline = Date.now() + 20_000;
    let again: Blob | undefined;
    while (again === undefined && Date.now() < deadline) {
      await Bun.sleep(100);
      again = await hold().catch(() => undefined);
    }
    expect(Buffer.compare(await again!.bytes(), content)).toBe(0);
  });

  test('gives a failed answer its room back', async () => {
    const narrow = await openFileSpool(join(folder, 'narrow'), CONTENT_BYTES);
    const broken = narrow.hold(streamOf(content, MIB, MIB).stream, CONTENT_BYTES, watch());
    await expect(broken).rejects.toThrow('gone');
    const blob = await narrow.hold(streamOf(content, MIB).stream, CONTENT_BYTES, watch());
    expect(blob.size).toBe(CONTENT_BYTES);
  });
});
