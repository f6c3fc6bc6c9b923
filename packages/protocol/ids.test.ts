import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { isPathId, isRefDomain, parsePathId } from './ids.ts';

describe('parsePathId', () => {
  test.each([
    ['demo', 'demo'],
    ['a%2Fb', 'a/b'],
    ['%2e%2E%2f', '../'],
    ['...', '...'],
    ['.a', '.a'],
    ['a+b', 'a+b'],
    ['a%20b', 'a b'],
    ['%25', '%'],
    ['%252e', '%2e'],
    ['%E2%82%AC', '€'],
    ['é', 'é'],
    ['e%CC%81', 'e\u0301'],
    ['A', 'A'],
    ['%00a'.slice(3), 'a'],
    ['x'.repeat(256), 'x'.repeat(256)],
    ['%F0%9F%98%80'.repeat(256), '😀'.repeat(256)],
    ['%EF%BB%BF', '\uFEFF'],
    ['%C2%A0', '\u00a0'],
    ['%EF%BF%BD', '\uFFFD'],
  ])('%s is an id', (raw, id) => {
    expect(parsePathId(raw)).toEqual({ kind: 'id', id });
  });

  test.each(['.', '..', '%2e', '%2E', '%2e%2E', '.%2e', '%2E.'])('%s is no route', (raw) => {
    expect(parsePathId(raw)).toEqual({ kind: 'not-found' });
  });

  test.each([
    '',
    '%',
    '%2',
    '%zz',
    'a%',
    '%80',
    '%C0%AF',
    '%ED%A0%80',
    '%00',
    'a%0Ab',
    '%1F',
    '%7F',
    '%C2%80',
    '%C2%9F',
    '\u007f',
    '\ud800',
    'x'.repeat(257),
    'x'.repeat(513),
    '%F0%9F%98%80'.repeat(257),
  ])('%s is invalid', (raw) => {
    expect(parsePathId(raw)).toEqual({ kind: 'invalid' });
  });

  test('every id comes back from its own encoding, and no two share one', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (id) => {
        const parsed = parsePathId(encodeURIComponent(id));
        if (isPathId(id)) expect(parsed).toEqual({ kind: 'id', id });
        else expect(parsed.kind).not.toBe('id');
      }),
      { numRuns: 500 },
    );
  });

  test('any segment gets one of the three answers', () => {
    const segment = fc.string({
      unit: fc.constantFrom('%', '2', 'e', 'E', 'f', '.', '0', 'c', '8', 'a', '/', '\u0000'),
    });
    fc.assert(
      fc.property(segment, (raw) => {
        const parsed = parsePathId(raw);
        if (parsed.kind === 'id') expect(isPathId(parsed.id)).toBe(true);
        else expect(['not-found', 'invalid']).toContain(parsed.kind);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('isRefDomain', () => {
  test.each(['a', 'app', 'app:1', 'a1:b:c9', 'a'.repeat(64)])('%s is one', (domain) => {
    expect(isRefDomain(domain)).toBe(true);
  });
  test.each([
    '',
    '1a',
    'A',
    'a:',
    ':a',
    'a::b',
    'a-b',
    'a b',
    'é',
    'a\n',
    'a'.repeat(65),
    undefined,
    null,
    7,
    [['a']],
    {},
  ])('%p is none', (domain) => {
    expect(isRefDomain(domain)).toBe(false);
  });
});
