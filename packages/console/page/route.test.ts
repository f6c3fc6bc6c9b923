/** Addresses of the page. */
import { describe, expect, test } from 'bun:test';
import { decodeName, encodeNames } from './space/tree-address.ts';

/** The module reads where the page is when it is loaded. */
Object.assign(globalThis, { location: { hash: '' } });
const { hrefTo, parseRoute } = await import('./route.ts');

describe('an address', () => {
  test('has a view, what the view shows, and a query', () => {
    const { segments, query } = parseRoute('#/spaces?app=a%2Fb');
    expect(segments).toEqual(['spaces']);
    expect(query.get('app')).toBe('a/b');
    expect(parseRoute('').segments).toEqual([]);
    expect(parseRoute('#/space/tree/ab/c%20d').segments).toEqual(['space', 'tree', 'ab', 'c%20d']);
  });

  test('is made as it is read', () => {
    const href = hrefTo('spaces', { app: 'a&b=c', after: undefined, limit: '' });
    expect(href).toBe('#/spaces?app=a%26b%3Dc');
    expect(parseRoute(href).query.get('app')).toBe('a&b=c');
  });
});

describe('a path in a tree', () => {
  test('keeps every byte of every name', () => {
    const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
    const names = [all, new TextEncoder().encode('a/b?c#d %41 é'), Uint8Array.of(0xff)];
    const encoded = encodeNames(names);
    expect(encoded).toMatch(/^[A-Za-z0-9_.~%/-]+$/);
    expect(encoded.split('/').map(decodeName)).toEqual(names);
  });

  test('may be typed by hand', () => {
    expect(new TextDecoder().decode(decodeName('naïve file'))).toBe('naïve file');
  });
});
