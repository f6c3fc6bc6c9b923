/** A hostile server cannot fill memory or hold the caller by what it claims of content or how it sends it. */

import { expect, test } from 'bun:test';
import { SECOND_MS } from '@holdfast/protocol';
import { expectCasError, FakeSpace } from './test/fake-space-fixture.ts';

const HASH = 'ab'.repeat(32);

/** Content of `bytes`, one byte of it every `everyMs`. */
function dripping(bytes: number, everyMs: number): { readonly space: FakeSpace; sent(): number } {
  const space = new FakeSpace();
  let now = 1_800_000_000_000;
  let sent = 0;
  // Time passes only with the bytes: a time limit never does.
  Object.assign(space, { clock: { now: () => now, startTimer: () => () => undefined } });
  space.plant('content', () => {
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          now += everyMs;
          sent += 1;
          controller.enqueue(Uint8Array.of(0));
          if (sent === bytes) controller.close();
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { headers: { 'content-length': String(bytes) } });
  });
  return { space, sent: () => sent };
}

test('a byte now and then is no content that comes', async () => {
  const { space, sent } = dripping(5_000, SECOND_MS);
  const content = await space.client({ timeouts: { contentIdleMs: 30 * SECOND_MS } }).readContent(HASH);
  await expectCasError(content.bytes(), 'TIMED_OUT');
  expect(sent()).toBe(30);
});

test('a line that is slow, but comes on, is waited for', async () => {
  const { space } = dripping(5_000, 0.5);
  const content = await space.client({ timeouts: { contentIdleMs: SECOND_MS } }).readContent(HASH);
  expect((await content.bytes()).length).toBe(5_000);
});

test.each([String(Number.MAX_SAFE_INTEGER), '9999999999999999', '100000000000'])(
  'no memory is taken for %s bytes that an answer says it has',
  async (length) => {
    const space = new FakeSpace();
    space.plant('content', () => new Response('a', { headers: { 'content-length': length } }));
    const read = async (): Promise<Uint8Array> => (await space.client().readContent(HASH)).bytes();
    const error = await read().catch((thrown: unknown) => thrown);
    expect(['RESPONSE_TOO_LARGE', 'MALFORMED_RESPONSE']).toContain((error as { code: string }).code);
  },
);
