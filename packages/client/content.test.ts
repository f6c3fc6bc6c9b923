import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { CasError } from './errors.ts';
import { expectCasError, FakeSpace, readAll, rejection } from './test/fake-space-fixture.ts';

const HASH = 'a'.repeat(64);

describe('content', () => {
  const answer =
    (body: BodyInit, headers: Record<string, string>, status = 200) =>
    () =>
      new Response(body, { status, headers: { 'content-type': 'x/y', ...headers } });

  test('other lengths and ranges than announced or asked for', async () => {
    const space = new FakeSpace();
    space.plant('content', answer('abc', { 'content-length': '4' }));
    const short = await space.client().readContent(HASH);
    expect(((await rejection(readAll(short.body))) as CasError).code).toBe('CONNECTION_FAILED');
    space.plant('content', answer('abcde', { 'content-length': '4' }));
    const long = await space.client().readContent(HASH);
    const expectBroken = async (reading: Promise<unknown>): Promise<void> => {
      expect((await expectCasError(reading, 'MALFORMED_RESPONSE')).isBrokenOnTheWay).toBe(true);
    };
    await expectBroken(readAll(long.body));
    space.plant('content', answer('abc', { 'content-length': 'x' }));
    await expectBroken(space.client().readContent(HASH));
    for (const [range, contentRange] of [
      [{ first: 1, last: 2 }, 'bytes 0-2/9'],
      [{ first: 1, last: 2 }, 'bytes 1-3/9'],
      [{ first: 1, last: 2 }, 'bytes 1-2/*'],
      [{ first: 1 }, 'bytes 1-7/9'],
      [{ suffix: 3 }, 'bytes 5-8/9'],
      [{ suffix: 3 }, 'nonsense'],
    ] as const) {
      space.plant('content', answer('abc', { 'content-range': contentRange }, 206));
      await expectBroken(space.client().readContent(HASH, { range }));
    }
    space.plant('content', answer('abc', { 'content-length': '3' }));
    await expectBroken(space.client().readContent(HASH, { range: { first: 1 } }));
  });

  test('any range over any content is that part of it, or 416', async () => {
    const position = fc.nat(12);
    const range = fc.oneof(
      fc.record({ first: position }),
      fc.record({ first: position, last: position }).filter(({ first, last }) => first <= last),
      fc.record({ suffix: fc.integer({ min: 1, max: 12 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.string({ maxLength: 9, unit: 'binary-ascii' }), range, async (text, asked) => {
        const space = new FakeSpace();
        const hash = space.store(text);
        const { first, last, suffix } = { first: undefined, last: undefined, suffix: undefined, ...asked };
        const expected =
          suffix === undefined ? text.slice(first, (last ?? text.length) + 1) : text.slice(-suffix);
        if (expected === '') {
          const error = await expectCasError(
            space.client().readContent(hash, { range: asked }),
            'INVALID_REQUEST',
          );
          expect(error.status).toBe(416);
          return;
        }
        const content = await space.client().readContent(hash, { range: asked });
        expect(new TextDecoder().decode(await readAll(content.body))).toBe(expected);
        expect([content.size, content.end - content.start]).toEqual([text.length, expected.length]);
      }),
    );
  });
});
