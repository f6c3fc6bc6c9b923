import { describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { encodeNode } from '@holdfast/protocol';
import fc from 'fast-check';
import { type CasError, VerificationError } from './errors.ts';
import {
  answerContent,
  breakingBody,
  FakeSpace,
  failure,
  json,
  readAll,
  rejection,
  sha256Hex,
} from './test/fake-space-fixture.ts';

const CONTENT = Uint8Array.from({ length: 100 }, (_, index) => index);
const TYPE = 'image/x-test; a=b';
const CHILD = 'd'.repeat(64);

function spaceWith(content: Uint8Array): { space: FakeSpace; hash: string } {
  const space = new FakeSpace();
  const bytes = encodeNode({ contentType: TYPE, refs: [CHILD, CHILD], content });
  const hash = sha256Hex(bytes);
  space.nodes.set(hash, bytes);
  return { space, hash };
}

/** A 200 or 206 whose body breaks after `count` bytes of what was asked for. */
function breakAfter(count: number) {
  return ({ headers }: { headers: Headers }): Response => {
    const whole = answerContent(CONTENT, TYPE, headers.get('range'));
    const start = Number(/\d+/.exec(headers.get('range') ?? '0')?.[0]);
    const body = breakingBody(CONTENT.slice(start, start + count));
    return new Response(body, { status: whole.status, headers: whole.headers });
  };
}

async function readSlowly(body: ReadableStream<Uint8Array>): Promise<{ bytes: number[]; error: unknown }> {
  const bytes: number[] = [];
  const reader = body.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) bytes.push(...next.value);
    return { bytes, error: undefined };
  } catch (error) {
    return { bytes, error };
  }
}

describe('verified reads', () => {
  test('a good node, whole and streamed', async () => {
    for (const content of [CONTENT, new Uint8Array(0), new Uint8Array(200_000).fill(7)]) {
      const { space, hash } = spaceWith(content);
      const node = await space.client().getNode(hash);
      expect(node.content).toEqual(content);
      expect(node.metadata).toEqual({ hash, size: content.length, contentType: TYPE, refs: [CHILD, CHILD] });
      const open = await space.client().openNode(hash);
      expect(await readAll(open.body)).toEqual(content);
      expect(open.metadata).toEqual(node.metadata);
      expect(space.clock.runningLimits).toBe(0);
    }
  });

  test('one changed byte anywhere: an error, and the stream never looks complete', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(CONTENT.length - 1), fc.integer({ min: 1, max: 255 }), async (at, mask) => {
        const { space, hash } = spaceWith(CONTENT);
        const damaged = Uint8Array.from(CONTENT, (byte, index) => (index === at ? byte ^ mask : byte));
        const pieces = () =>
          new Response(
            new ReadableStream({
              start(controller) {
                controller.enqueue(damaged.slice(0, 40));
                controller.enqueue(damaged.slice(40));
                controller.close();
              },
            }),
            { headers: { 'content-length': '100', 'content-type': TYPE } },
          );
        space.plant('content', pieces, pieces);
        expect(await rejection(space.client().getNode(hash))).toBeInstanceOf(VerificationError);
        const { bytes, error } = await readSlowly((await space.client().openNode(hash)).body);
        expect(error).toBeInstanceOf(VerificationError);
        expect(bytes).toEqual([...damaged.slice(0, 40)]);
      }),
      { numRuns: 30 },
    );
  });

  test('metadata that lies is found out', async () => {
    const { space, hash } = spaceWith(CONTENT);
    const good = (await space.client().readMetadata(hash)) as { metadata: object; state: object };
    for (const lie of [
      { contentType: 'text/html' },
      { refs: [CHILD] },
      { refs: [] },
      { size: 99 },
      { size: 101 },
      { hash: CHILD },
      { contentType: 'text/plän' },
      { refs: Array(257).fill(CHILD) },
    ]) {
      const told = () => json({ ...good, metadata: { ...good.metadata, ...lie } });
      space.plant('metadata', told, told);
      const error = await rejection(space.client().getNode(hash));
      expect(error).toBeInstanceOf(VerificationError);
      expect((error as CasError).code).toBe('VERIFICATION_FAILED');
      const streamed = space
        .client()
        .openNode(hash)
        .then(({ body }) => readAll(body));
      expect(await rejection(streamed)).toBeInstanceOf(VerificationError);
    }
  });

  test('a broken connection is taken up where it broke', async () => {
    const { space, hash } = spaceWith(CONTENT);
    space.plant('content', breakAfter(30), breakAfter(0), breakAfter(30), breakAfter(40));
    expect((await space.client().getNode(hash)).content).toEqual(CONTENT);
    const ranges = space.calls
      .filter(({ kind }) => kind === 'content')
      .map(({ headers }) => headers.get('range'));
    expect(ranges).toEqual([null, 'bytes=30-', 'bytes=30-', 'bytes=60-']);
    space.plant('content', breakAfter(10));
    expect(await readAll((await space.client().openNode(hash)).body)).toEqual(CONTENT);
  });

  test('a connection that breaks without progress is given up in the end', async () => {
    const { space, hash } = spaceWith(CONTENT);
    space.plant('content', ...Array(20).fill(breakAfter(0)));
    expect(((await rejection(space.client().getNode(hash))) as CasError).code).toBe('CONNECTION_FAILED');
    expect(space.calls.length).toBe(5);
  });

  test('a connection that breaks after each byte is given up in the end', async () => {
    const { space, hash } = spaceWith(CONTENT);
    space.plant('content', ...Array(50).fill(breakAfter(1)));
    expect(((await rejection(space.client().getNode(hash))) as CasError).code).toBe('CONNECTION_FAILED');
    expect(space.calls.length).toBe(5);
  });

  test('damage that the server found itself is its error, not a loop', async () => {
    const { space, hash } = spaceWith(CONTENT);
    const rotten = () => failure(503, 'SERVICE_UNAVAILABLE');
    space.plant('content', breakAfter(30), ...Array(4).fill(rotten));
    const { bytes, error } = await readSlowly((await space.client().openNode(hash)).body);
    expect((error as CasError).code).toBe('SERVICE_UNAVAILABLE');
    expect(bytes.length).toBeLessThanOrEqual(30);
  });

  test('content too large for memory is refused before it is read', async () => {
    const { space, hash } = spaceWith(CONTENT);
    const client = space.client({ contentBytesMax: 99 });
    const error = await rejection(client.getNode(hash));
    expect((error as CasError).code).toBe('RESPONSE_TOO_LARGE');
    expect(space.kinds()).toEqual(['metadata']);
    expect(await readAll((await client.openNode(hash)).body)).toEqual(CONTENT);
  });

  test('an absent node, a stream that is cancelled, a signal', async () => {
    const { space, hash } = spaceWith(CONTENT);
    expect(((await rejection(space.client().openNode(CHILD))) as CasError).code).toBe('NOT_FOUND');
    const open = await space.client().openNode(hash);
    await open.body.cancel();
    const reason = new Error('enough');
    const signal = AbortSignal.abort(reason);
    expect(await rejection(space.client().getNode(hash, { signal }))).toBe(reason);
    expect(space.clock.runningLimits).toBe(0);
  });

  test('a faster digest of the runtime can take the place of the built-in one', async () => {
    const { space, hash } = spaceWith(CONTENT);
    let used = 0;
    const client = space.client({
      createSha256: () => {
        used += 1;
        return createHash('sha256');
      },
    });
    expect(await readAll((await client.openNode(hash)).body)).toEqual(CONTENT);
    expect(used).toBe(1);
  });

  test('without crypto.subtle, as in a page over plain http, everything still works', async () => {
    const subtle = Object.getOwnPropertyDescriptor(globalThis, 'crypto') as PropertyDescriptor;
    Object.defineProperty(globalThis, 'crypto', { value: undefined, configurable: true });
    try {
      const { space, hash } = spaceWith(CONTENT);
      expect((await space.client().getNode(hash)).content).toEqual(CONTENT);
      expect((await space.client().putNode({ contentType: 'a/b', content: 'x' })).state).toBe('ready');
    } finally {
      Object.defineProperty(globalThis, 'crypto', subtle);
    }
  });
});
