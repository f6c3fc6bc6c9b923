/** Bodies of content reads: whole, in parts, copied, and not read at all. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import { seededBytes } from '../../../test/support/canonical-node.ts';
import type { ContentStore } from '../core/ports.ts';
import { ContentDamaged } from '../core/store-failure.ts';
import { type HandlerWorld, openHandlerWorld, SPACE_URL } from './test/handler-fixture.ts';

const CONTENT_BYTES = 10 * MIB_BYTES;

let world: HandlerWorld;
let seed = 7;

beforeAll(async () => {
  world = await openHandlerWorld();
});

afterAll(() => world.close());

/** Content of its own for each test: nothing of it was read before. */
async function storeContent(bytes = CONTENT_BYTES): Promise<{ hash: string; content: Uint8Array }> {
  seed += 1;
  const content = seededBytes(bytes, seed);
  return { hash: await world.store(content), content };
}

interface Reading {
  readonly range?: string;
  readonly method?: string;
  readonly read?: ContentStore['read'];
  readonly signal?: AbortSignal;
}

function ask(hash: string, { range, method = 'GET', read, signal }: Reading = {}): Promise<Response> {
  const core = read === undefined ? world.core : { ...world.core, content: withRead(read) };
  const headers: Record<string, string> = range === undefined ? {} : { range };
  const url = `${SPACE_URL}/cas/nodes/${hash}/content`;
  const request = new Request(url, { method, headers, ...(signal && { signal }) });
  return Promise.resolve(world.handler({ core }).handle(request));
}

/** The real content store with another way to read objects. */
function withRead(read: ContentStore['read']): ContentStore {
  return new Proxy(world.core.content, {
    get: (target, name) => {
      if (name === 'read') return read;
      const value = Reflect.get(target, name, target) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

describe('content', () => {
  test('headers of a whole read', async () => {
    const { hash, content } = await storeContent();
    const response = await ask(hash);
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
    [`bytes=${MIB_BYTES}-${9 * MIB_BYTES + 5}`, MIB_BYTES, 9 * MIB_BYTES + 6],
    ['bytes=-3', CONTENT_BYTES - 3, CONTENT_BYTES],
    [`bytes=5-${2 ** 50}`, 5, CONTENT_BYTES],
  ])('%s', async (range, start, end) => {
    const { hash, content } = await storeContent();
    const response = await ask(hash, { range });
    expect(response.status).toBe(206);
    expect(response.headers.get('content-range')).toBe(`bytes ${start}-${end - 1}/${CONTENT_BYTES}`);
    expect(response.headers.get('content-length')).toBe(String(end - start));
    expect(Buffer.compare(await response.bytes(), content.subarray(start, end))).toBe(0);
  });

  test('HEAD answers the headers of GET, copies nothing and proves every byte', async () => {
    const { hash } = await storeContent();
    const before = world.options.copies.heldBytes;
    const response = await ask(hash, { range: 'bytes=1-', method: 'HEAD' });
    expect(response.status).toBe(206);
    expect(response.headers.get('content-length')).toBe(String(CONTENT_BYTES - 1));
    expect((await response.bytes()).length).toBe(0);
    expect(world.options.copies.heldBytes).toBe(before);
    await world.damage(hash, CONTENT_BYTES - 10);
    expect((await ask(hash, { method: 'HEAD' })).status).toBe(503);
  });
});

describe('a read that fails', () => {
  test('in the middle is an error before the first byte', async () => {
    const { hash } = await storeContent();
    const { content } = world.core;
    const read: ContentStore['read'] = (object, start, end) =>
      start < 5 * MIB_BYTES
        ? content.read(object, start, end)
        : Promise.reject(Object.assign(new Error('gone'), { code: 'EIO' }));
    expect((await ask(hash, { read })).status).toBe(503);
    expect((await ask(hash, { range: `bytes=0-${MIB_BYTES - 1}`, read })).status).toBe(206);
    expect((await ask(hash)).status).toBe(200);
  });

  test('by damage is 503, and the row is rotten', async () => {
    const { hash } = await storeContent();
    const read: ContentStore['read'] = async () => {
      throw new ContentDamaged('damaged');
    };
    expect((await ask(hash, { read })).status).toBe(503);
    expect((await ask(hash)).status).toBe(503);
  });

  test('by damage since the last read is noticed, and a reader of the earlier copy still gets proven bytes', async () => {
    const { hash, content } = await storeContent();
    const slow = await ask(hash);
    await world.damage(hash, 3 * MIB_BYTES + 10);
    expect((await ask(hash, { range: `bytes=${3 * MIB_BYTES}-${6 * MIB_BYTES}` })).status).toBe(503);
    expect(Buffer.compare(await slow.bytes(), content)).toBe(0);
  });

  test('by a wrong length is never sent', async () => {
    const { hash } = await storeContent();
    const { content } = world.core;
    for (const change of [-1, 1]) {
      const read: ContentStore['read'] = async (object, start, end) => {
        const bytes = await content.read(object, start, end);
        return change < 0 ? bytes.subarray(1) : Buffer.concat([bytes, new Uint8Array(1)]);
      };
      expect((await ask(hash, { read })).status).toBe(500);
    }
  });
});

describe('a caller that goes away', () => {
  test('ends the reading', async () => {
    const { hash } = await storeContent(20 * MIB_BYTES - 1000);
    const gone = new AbortController();
    let reads = 0;
    const { content } = world.core;
    const read: ContentStore['read'] = (object, start, end) => {
      reads += 1;
      if (reads === 2) gone.abort();
      return content.read(object, start, end);
    };
    await ask(hash, { read, signal: gone.signal });
    expect(world.failures.at(-1)?.kind).toBe('caller-gone');
    expect(reads).toBeLessThan(10);
    // Pieces that were being read then are read again.
    const response = await ask(hash, { read });
    expect(response.status).toBe(200);
    expect(reads).toBeLessThan(20);
  });
});
