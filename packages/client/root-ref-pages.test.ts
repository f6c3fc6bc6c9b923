import { describe, expect, test } from 'bun:test';
import type { RootRefPage } from '@holdfast/protocol';
import type { CasError } from './errors.ts';
import { FakeSpace, failure, json, rejection } from './test/fake-space-fixture.ts';

/** A page of one item, whose hash is as far in the order as the cursors that lead to it. */
function page(nextCursor: string | null, more: Partial<RootRefPage> = {}): () => Response {
  const digit = { one: 'a', two: 'b' }[nextCursor ?? ''] ?? 'c';
  const items = [{ hash: digit.repeat(64), refCount: 1 }];
  return () => json({ refDomain: 'app', revision: 3, items, nextCursor, ...more });
}

async function walk(space: FakeSpace, limit?: number): Promise<RootRefPage[]> {
  const pages: RootRefPage[] = [];
  for await (const each of space.client().rootRefs({ limit })) pages.push(each);
  return pages;
}

describe('rootRefs', () => {
  test('follows the cursors to the end', async () => {
    const space = new FakeSpace();
    space.plant('root-refs', page('one'), page('two'), page(null));
    expect((await walk(space, 7)).map(({ nextCursor }) => nextCursor)).toEqual(['one', 'two', null]);
    const queries = space.calls.map(({ url }) => url.search);
    expect(queries).toEqual(['?limit=7', '?limit=7&cursor=one', '?limit=7&cursor=two']);
  });

  test('asks for no page that is not wanted', async () => {
    const space = new FakeSpace();
    space.plant('root-refs', page('one'), page(null));
    for await (const each of space.client().rootRefs()) {
      expect(each.revision).toBe(3);
      break;
    }
    expect(space.calls.length).toBe(1);
  });

  test('a cursor that is too old is the caller’s to decide on', async () => {
    const space = new FakeSpace();
    space.plant('root-refs', page('one'), () => failure(409, 'CONFLICT'));
    const error = (await rejection(walk(space))) as CasError;
    expect([error.code, error.status]).toEqual(['CONFLICT', 409]);
  });

  const item = (digit: string) => ({ hash: digit.repeat(64), refCount: 1 });
  test.each([
    ['of another revision', page(null, { revision: 4 })],
    ['of another domain', page(null, { refDomain: 'other' })],
    ['that leads to itself', page('one')],
    ['that is empty and leads on', page('two', { items: [] })],
    ['that goes back', page('two', { items: [item('0')] })],
    ['out of order', page(null, { items: [item('c'), item('b')] })],
    ['that names one twice', page(null, { items: [item('c'), item('c')] })],
    [
      'that is too long',
      page(null, {
        items: Array.from({ length: 201 }, (_, at) => ({ hash: String(at).padStart(64, 'b'), refCount: 1 })),
      }),
    ],
  ])('a page %s ends the walk', async (_, second) => {
    const space = new FakeSpace();
    space.plant('root-refs', page('one'), second);
    expect(((await rejection(walk(space))) as CasError).code).toBe('MALFORMED_RESPONSE');
    expect(space.calls.length).toBe(2);
  });
});
