/** The parser of capabilities with arbitrary header values. */
import { describe, expect, test } from 'bun:test';
import { ApiError } from '@holdfast/protocol';
import fc from 'fast-check';
import { TOKEN_CHARACTERS_MAX } from './auth-limits.ts';
import { type ParsedToken, parseToken, readBearerToken } from './capability.ts';
import { encodePart } from './test/auth-fixture.ts';

/** The parsed token, or the error code; anything else thrown fails the test. */
function parse(authorization: string | null): ParsedToken | string {
  try {
    return parseToken(readBearerToken(authorization));
  } catch (error) {
    if (error instanceof ApiError) return error.code;
    throw error;
  }
}

const base64urlText = fc
  .array(fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'), {
    maxLength: 60,
  })
  .map((characters) => characters.join(''));

describe('any header', () => {
  test('is parsed or refused as invalid_token, never anything else', () => {
    const parts = fc.oneof(
      base64urlText,
      fc.string(),
      fc.json().map(encodePart),
      fc
        .dictionary(fc.constantFrom('alg', 'iss', 'kid', '__proto__'), fc.jsonValue())
        .map((value) => encodePart(JSON.stringify(value))),
      fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64url')),
    );
    const tokens = fc.array(parts, { maxLength: 5 }).map((all) => all.join('.'));
    const headers = fc.oneof(
      fc.string(),
      tokens,
      tokens.map((token) => `Bearer ${token}`),
      tokens.map((token) => `bEARER  ${token}`),
    );
    fc.assert(
      fc.property(headers, (header) => {
        const result = parse(header);
        if (typeof result === 'string') expect(result).toBe('invalid_token');
        else expect([typeof result.algorithm, typeof result.issuer]).toEqual(['string', 'string']);
      }),
      { numRuns: 2000 },
    );
  });

  test('with a JWT gives back exactly its parts', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 20 }).filter((value) => value.isWellFormed());
    fc.assert(
      fc.property(text, text, fc.dictionary(text, fc.integer()), (alg, iss, extra) => {
        const compact = [
          encodePart(JSON.stringify({ ...extra, alg })),
          encodePart(JSON.stringify({ ...extra, iss })),
          'AAAA',
        ].join('.');
        const result = parse(`Bearer ${compact}`);
        if (typeof result === 'string') throw new Error(`refused with ${result}`);
        expect([result.algorithm, result.issuer, result.compact]).toEqual([alg, iss, compact]);
        for (const [name, value] of Object.entries(extra)) {
          if (name !== 'alg') expect(result.header.get(name)).toBe(value === 0 ? 0 : value);
        }
      }),
    );
  });

  test('of any length takes little time', () => {
    const startedAt = performance.now();
    for (const character of ['a', '.', ' ', '=', '{']) {
      expect(parse(`Bearer ${character.repeat(1_000_000)}`)).toBe('invalid_token');
      expect(parse(`bearer ${character.repeat(1_000_000)}`)).toBe('invalid_token');
    }
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });
});

test('exactly the longest token is still read', () => {
  const head = `${encodePart('{"alg":"ES256"}')}.${encodePart('{"iss":"i"}')}.`;
  // Four characters of base64url at a time keep the signature decodable.
  const longest = head + 'A'.repeat(Math.floor((TOKEN_CHARACTERS_MAX - head.length) / 4) * 4);
  expect(typeof parse(`Bearer ${longest}`)).toBe('object');
  expect(parse(`Bearer ${longest}${'A'.repeat(4)}`)).toBe('invalid_token');
});

test('an absent header is a missing token', () => {
  expect(parse(null)).toBe('missing_token');
});

test('a signature that no bytes encode to is no JWT', () => {
  const head = `${encodePart('{"alg":"HS256"}')}.${encodePart('{"iss":"i"}')}.`;
  expect(parse(`Bearer ${head}AAAAA`)).toBe('invalid_token');
  expect(typeof parse(`Bearer ${head}AAAAAA`)).toBe('object');
});

test('stray bits at the end of a part are refused: two texts would be the same capability', () => {
  const header = encodePart('{"alg":"ES256"}');
  const claims = encodePart('{"iss":"a"} ');
  expect(parse(`Bearer ${header}.${claims}.QQ`)).toMatchObject({ issuer: 'a' });
  expect(parse(`Bearer ${header}.${claims}.QR`)).toBe('invalid_token');
  const odd = encodePart('{"iss":"a"}');
  const stray = `${odd.slice(0, -1)}${String.fromCharCode(odd.charCodeAt(odd.length - 1) + 1)}`;
  expect(Buffer.from(stray, 'base64url')).toEqual(Buffer.from(odd, 'base64url'));
  expect(parse(`Bearer ${header}.${odd}.QQ`)).toMatchObject({ issuer: 'a' });
  expect(parse(`Bearer ${header}.${stray}.QQ`)).toBe('invalid_token');
});
