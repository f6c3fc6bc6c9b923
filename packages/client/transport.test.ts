/** How answers are read: as a stream that is bounded, and cut off in time. */
import { describe, expect, test } from 'bun:test';
import { getEventListeners } from 'node:events';
import { until } from '../../test/support/until.ts';
import type { CasError } from './errors.ts';
import { expectCasError, FakeSpace, failure, json, rejection, USAGE } from './test/fake-space-fixture.ts';

const TEXT = JSON.stringify(USAGE);
const never = (): Promise<Response> => new Promise(() => undefined);

/** Yields `text`, then nothing more and no end. */
function unending(text: string): ReadableStream<Uint8Array> {
  return new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode(text)) });
}

async function called(space: FakeSpace, count: number): Promise<void> {
  await until(() => space.calls.length >= count);
  expect(space.calls.length).toBe(count);
}

test('an error has the id that the server gave its answer', async () => {
  const space = new FakeSpace();
  const fail = (id: string) => () => failure(404, 'NOT_FOUND', { 'x-request-id': id });
  space.plant('metadata', fail('abc-1'), fail('x'.repeat(200)));
  const idOf = async () =>
    (await expectCasError(space.client().readMetadata('a'.repeat(64)), 'NOT_FOUND')).requestId;
  expect(await idOf()).toBe('abc-1');
  expect(await idOf()).toBeUndefined();
});

describe('an answer of known length', () => {
  const known = (body: BodyInit, length: number, headers: Record<string, string> = {}): Response =>
    new Response(body, { headers: { 'content-length': String(length), ...headers } });

  test('is read like any other', async () => {
    const space = new FakeSpace();
    space.plant('usage', () => known(TEXT, TEXT.length));
    expect(await space.client().getUsage()).toEqual(USAGE);
    const bytes = new Uint8Array([0x22, 0xff, 0x22]);
    space.plant('usage', () => known(bytes, bytes.length));
    await expectCasError(space.client().getUsage(), 'MALFORMED_RESPONSE');
  });

  test('that is too long is not waited for', async () => {
    const space = new FakeSpace();
    const chunk = 'x'.repeat(2 ** 20 + 1);
    space.plant('usage', () => known(unending(chunk), chunk.length));
    await expectCasError(space.client().getUsage(), 'RESPONSE_TOO_LARGE');
  });

  test('that is encoded is not read: none was asked for', async () => {
    const space = new FakeSpace();
    space.plant('usage', () => known(TEXT, TEXT.length, { 'content-encoding': 'gzip' }));
    await expectCasError(space.client().getUsage(), 'MALFORMED_RESPONSE');
    expect(space.calls[0]?.headers.get('accept-encoding')).toBe('identity');
  });

  test('that stops half way ends with the time limit, or with the signal of the caller', async () => {
    const space = new FakeSpace();
    const half = (): Response => known(unending(TEXT.slice(0, 9)), TEXT.length);
    space.plant('usage', half, half);
    const client = space.client({ retry: { attemptsMax: 1 } });
    const late = rejection(client.getUsage());
    await called(space, 1);
    space.clock.expire();
    expect(((await late) as CasError).code).toBe('TIMED_OUT');

    const controller = new AbortController();
    const given = rejection(client.getUsage({ signal: controller.signal }));
    await called(space, 2);
    const reason = new Error('enough');
    controller.abort(reason);
    expect(await given).toBe(reason);
    expect(space.clock.runningLimits).toBe(0);
  });
});

describe('attempts under one signal', () => {
  test('share one listener, all hear it, and none stays', async () => {
    const space = new FakeSpace();
    const controller = new AbortController();
    const { signal } = controller;
    const client = space.client({ retry: { attemptsMax: 1 } });
    space.plant('usage', never, () => json(USAGE), never);
    const first = rejection(client.getUsage({ signal }));
    expect(await client.getUsage({ signal })).toEqual(USAGE);
    const last = rejection(client.getUsage({ signal }));
    await called(space, 3);
    const waiting = space.client({ token: () => new Promise<string>(() => undefined) });
    const unsent = rejection(waiting.getUsage({ signal }));
    await Bun.sleep(0);
    expect(getEventListeners(signal, 'abort').length).toBe(1);
    const reason = new Error('enough');
    controller.abort(reason);
    expect(await Promise.all([first, last, unsent])).toEqual([reason, reason, reason]);
    expect(space.clock.runningLimits).toBe(0);
  });

  test('leave nothing behind, and can begin anew', async () => {
    const space = new FakeSpace();
    const { signal } = new AbortController();
    for (let turn = 0; turn < 3; turn += 1) {
      space.plant(
        'usage',
        () => json(USAGE),
        () => json(USAGE),
      );
      await Promise.all([1, 2].map(() => space.client().getUsage({ signal })));
      expect(getEventListeners(signal, 'abort').length).toBe(0);
    }
  });
});
