import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { ApiError } from './errors.ts';
import {
  parseGcRequest,
  parseLeaseRequest,
  parseListRootRefsQuery,
  parseNoQuery,
  parseUpdateRootRefsRequest,
} from './requests.ts';

const encoder = new TextEncoder();
const bytes = (text: string) => encoder.encode(text);
const a = 'aa'.repeat(32);
const b = 'bb'.repeat(32);

function refusalOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    expect((error as ApiError).status).toBe((error as ApiError).code === 'PAYLOAD_TOO_LARGE' ? 413 : 400);
    return `${(error as ApiError).code}: ${(error as ApiError).message}`;
  }
  return 'none';
}

const lease = (text: string) => parseLeaseRequest(bytes(text));

describe('parseLeaseRequest', () => {
  test.each([
    ['{"leaseDurationMs":60000}', 60_000],
    ['{"leaseDurationMs": 60000}', 60_000],
    ['{"leaseDurationMs":1}', 1],
    ['{"leaseDurationMs":999999999999999}', 999_999_999_999_999],
    ['{"leaseDurationMs":9007199254740991}', 9_007_199_254_740_991],
    ['{"leaseDurationMs":6e4}', 60_000],
    ['{"leaseDurationMs":60000.0}', 60_000],
    ['{"leaseDurationMs":60000 }', 60_000],
    ['{"leaseDurationMs":\t60000}', 60_000],
    [' {\n"leaseDurationMs" : 60000}\n', 60_000],
    ['{"lease\\u0044urationMs":60000}', 60_000],
  ])('%s', (text, leaseDurationMs) => {
    expect(lease(text)).toEqual({ leaseDurationMs });
  });

  test.each([
    ['', /not valid JSON: a value is missing/],
    [' ', /not valid JSON/],
    ['null', /must be a JSON object with leaseDurationMs/],
    ['[]', /must be a JSON object/],
    ['60000', /must be a JSON object/],
    ['{}', /leaseDurationMs is missing/],
    ['{"leaseDurationMs":0}', /leaseDurationMs must be an integer from 1/],
    ['{"leaseDurationMs":-0}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":-1}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":1.5}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":1e400}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":9007199254740992}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":9007199254740990.6}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":99999999999999999999999}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":"60000"}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":null}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":true}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":[60000]}', /leaseDurationMs must be/],
    ['{"leaseDurationMs":060000}', /not valid JSON/],
    ['{"leaseDurationMs":00}', /not valid JSON/],
    ['{"leaseDurationMs":}', /not valid JSON/],
    ['{"leaseDurationMs": }', /not valid JSON/],
    ['{"leaseDurationMs":6 0}', /not valid JSON/],
    ['{"leaseDurationMs":60000}}', /not valid JSON/],
    ['{"leaseDurationMs":60000', /not valid JSON/],
    ['\uFEFF{"leaseDurationMs":60000}', /not valid JSON/],
    ['{"leaseDurationMs":60000,"leaseDurationMs":60000}', /occurs twice/],
    ['{"leaseDurationMs":60000,"\\u006ceaseDurationMs":60000}', /occurs twice/],
    ['{"leaseDurationMs":60000,"extra":1}', /field "extra" is not known/],
    ['{"leaseDurationMs":60000,"__proto__":1}', /field "__proto__" is not known/],
    ['{"LeaseDurationMs":60000}', /field "LeaseDurationMs" is not known/],
    ['{"leaseDurationMs":60000,"x":{"y":1,"y":2}}', /"y" occurs twice/],
  ])('refuses %s', (text, message) => {
    const refusal = refusalOf(() => lease(text));
    expect(refusal).toMatch(/^INVALID_REQUEST: /);
    expect(refusal).toMatch(message);
  });

  test('the cheap path answers as the general one', () => {
    const digits = fc.oneof(
      fc.maxSafeNat().map(String),
      fc.string({ unit: fc.constantFrom('0', '1', '9', ' ', '.', 'e', '-', '}', '{', '\n'), maxLength: 18 }),
    );
    fc.assert(
      fc.property(digits, (text) => {
        // White space before the brace keeps the second body from the cheap path.
        const cheap = refusalOf(() => lease(`{"leaseDurationMs":${text}}`));
        const general = refusalOf(() => lease(` {"leaseDurationMs":${text}}`));
        expect(cheap === 'none').toBe(general === 'none');
        if (cheap === 'none') {
          const expected = (JSON.parse(`{"leaseDurationMs":${text}}`) as { leaseDurationMs: number })
            .leaseDurationMs;
          expect(lease(`{"leaseDurationMs":${text}}`).leaseDurationMs).toBe(expected);
          expect(lease(` {"leaseDurationMs":${text}}`).leaseDurationMs).toBe(expected);
        }
      }),
      { numRuns: 1000 },
    );
  });

  test('a body over 1 MiB is too large, one of exactly 1 MiB is not', () => {
    const body = (length: number) => bytes(`{"leaseDurationMs":${' '.repeat(length - 21)}7}`);
    expect(body(1_048_576).length).toBe(1_048_576);
    expect(parseLeaseRequest(body(1_048_576))).toEqual({ leaseDurationMs: 7 });
    expect(refusalOf(() => parseLeaseRequest(body(1_048_577)))).toMatch(/^PAYLOAD_TOO_LARGE: /);
    expect(refusalOf(() => parseGcRequest(body(1_048_577)))).toMatch(/^PAYLOAD_TOO_LARGE: /);
    expect(refusalOf(() => parseUpdateRootRefsRequest(body(1_048_577)))).toMatch(/^PAYLOAD_TOO_LARGE: /);
  });
});

describe('parseGcRequest', () => {
  test.each([
    ['', 100],
    ['{}', 100],
    [' { } ', 100],
    ['{"maxNodes":1}', 1],
    ['{"maxNodes":10000}', 10_000],
    ['{"maxNodes":10001}', 10_000],
    ['{"maxNodes":9007199254740991}', 10_000],
    ['{"maxNodes":1e2}', 100],
  ])('%p', (text, maxNodes) => {
    expect(parseGcRequest(bytes(text))).toEqual({ maxNodes });
  });

  test.each([
    '{"maxNodes":0}',
    '{"maxNodes":-5}',
    '{"maxNodes":1.5}',
    '{"maxNodes":null}',
    '{"maxNodes":1e400}',
  ])('refuses %s', (text) => {
    expect(refusalOf(() => parseGcRequest(bytes(text)))).toMatch(
      /^INVALID_REQUEST: maxNodes must be an integer/,
    );
  });
  test.each([' ', 'null', '[]', '{"maxNodes":1,"maxNodes":1}', '{"MaxNodes":1}', '{"limit":1}'])(
    'refuses %s',
    (text) => {
      expect(refusalOf(() => parseGcRequest(bytes(text)))).toMatch(/^INVALID_REQUEST: /);
    },
  );
});

const update = (body: unknown) =>
  parseUpdateRootRefsRequest(bytes(typeof body === 'string' ? body : JSON.stringify(body)));

describe('parseUpdateRootRefsRequest', () => {
  test('gives the changes in hash order', () => {
    expect(update({ requestId: 'r', changes: { [b]: -1_000_000, [a]: 1_000_000 } })).toEqual({
      requestId: 'r',
      changes: [
        { hash: a, delta: 1_000_000 },
        { hash: b, delta: -1_000_000 },
      ],
    });
  });

  test('a delta of -0 is 0', () => {
    expect(Object.is(update(`{"requestId":"r","changes":{"${a}":-0}}`).changes[0]?.delta, 0)).toBe(true);
  });

  test('1000 changes are fine, 1001 are not, and none is not', () => {
    const changes = (count: number) =>
      Object.fromEntries([...Array(count).keys()].map((at) => [at.toString(16).padStart(64, '0'), 1]));
    expect(update({ requestId: 'r', changes: changes(1000) }).changes.length).toBe(1000);
    expect(refusalOf(() => update({ requestId: 'r', changes: changes(1001) }))).toMatch(
      /changes has 1001 entries/,
    );
    expect(refusalOf(() => update({ requestId: 'r', changes: {} }))).toMatch(/changes has 0 entries/);
  });

  test('a requestId has 1 to 256 characters, counted as code points', () => {
    const changes = { [a]: 1 };
    for (const requestId of ['x', 'x'.repeat(256), '😀'.repeat(256), ' ', '\u0000', 'é']) {
      expect(update({ requestId, changes }).requestId).toBe(requestId);
    }
    for (const requestId of [
      '',
      'x'.repeat(257),
      '😀'.repeat(257),
      'x'.repeat(513),
      7,
      null,
      ['x'],
      {},
      true,
    ]) {
      expect(refusalOf(() => update({ requestId, changes }))).toMatch(/requestId is not valid; .* 1 to 256/);
    }
    expect(refusalOf(() => update({ requestId: '\ud800', changes }))).toMatch(/lone surrogate/);
  });

  test.each([
    ['{}', /requestId is missing/],
    ['{"requestId":"r"}', /changes is missing/],
    [`{"changes":{"${a}":1}}`, /requestId is missing/],
    [`{"requestId":"r","changes":[]}`, /changes is not an object/],
    [`{"requestId":"r","changes":null}`, /changes is not an object/],
    [`{"requestId":"r","changes":{"${a}":1,"${a}":1}}`, /occurs twice/],
    [`{"requestId":"r","changes":{"${a}":1,"\\u0061${a.slice(1)}":1}}`, /occurs twice/],
    [`{"requestId":"r","changes":{"${a.toUpperCase()}":1}}`, /changes has the key "AA.*64 lowercase/],
    [`{"requestId":"r","changes":{"__proto__":1}}`, /changes has the key "__proto__"/],
    [`{"requestId":"r","changes":{"constructor":1}}`, /changes has the key "constructor"/],
    [`{"requestId":"r","changes":{"":1}}`, /changes has the key ""/],
    [`{"requestId":"r","changes":{"${a}":1000001}}`, /changes.aaaa.* from -1000000 to 1000000/],
    [`{"requestId":"r","changes":{"${a}":-1000001}}`, /changes.aaaa/],
    [`{"requestId":"r","changes":{"${a}":0.5}}`, /changes.aaaa/],
    [`{"requestId":"r","changes":{"${a}":1.0000000000000000000000001}}`, /changes.aaaa/],
    [`{"requestId":"r","changes":{"${a}":"1"}}`, /changes.aaaa/],
    [`{"requestId":"r","changes":{"${a}":{"x":1}}}`, /changes.aaaa/],
    [`{"requestId":"r","changes":{"${a}":1},"refDomain":"x"}`, /field "refDomain" is not known/],
  ])('refuses %s', (text, message) => {
    const refusal = refusalOf(() => update(text));
    expect(refusal).toMatch(/^INVALID_REQUEST: /);
    expect(refusal).toMatch(message);
  });

  test('a refusal never quotes a name at length', () => {
    const refusal = refusalOf(() => update({ requestId: 'r', changes: {}, ['x'.repeat(100_000)]: 1 }));
    expect(refusal.length).toBeLessThan(200);
  });
});

describe('queries', () => {
  const list = (query: string) => parseListRootRefsQuery(new URLSearchParams(query));

  test('list takes limit and cursor', () => {
    expect(list('')).toEqual({ limit: 50 });
    expect(list('limit=1')).toEqual({ limit: 1 });
    expect(list('limit=200&cursor=abc')).toEqual({ limit: 200, cursor: 'abc' });
    expect(list('cursor=%20')).toEqual({ limit: 50, cursor: ' ' });
  });

  test.each([
    ...[
      'limit=',
      'limit=0',
      'limit=201',
      'limit=999',
      'limit=1000',
      'limit=-1',
      'limit=+1',
      'limit=01',
      'limit=1.0',
    ],
    ...['limit=1e1', 'limit=%201', 'limit=0x1', 'limit=1&limit=1', 'limit=1&limit=2', 'limit', 'limit=٣'],
    ...[
      'cursor=',
      'cursor',
      'cursor=a&cursor=a',
      'Limit=1',
      'x=1',
      'refDomain=a',
      '=',
      '=1',
      'limit=1&__proto__=1',
    ],
  ])('list refuses ?%s', (query) => {
    expect(refusalOf(() => list(query))).toMatch(/^INVALID_REQUEST: query parameter /);
  });

  test('any query parses within the bounds or is refused', () => {
    const name = fc.constantFrom('limit', 'cursor', 'other');
    const value = fc.oneof(fc.string({ unit: 'binary' }), fc.integer({ min: -5, max: 300 }).map(String));
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value), { maxLength: 3 }), (pairs) => {
        const wellFormed =
          pairs.every(([key, text]) =>
            key === 'limit' ? /^([1-9]|[1-9]\d|1\d\d|200)$/.test(text) : text !== '',
          ) &&
          pairs.every(([key]) => key !== 'other') &&
          new Set(pairs.map(([key]) => key)).size === pairs.length;
        expect(refusalOf(() => parseListRootRefsQuery(pairs)) === 'none').toBe(wellFormed);
      }),
      { numRuns: 500 },
    );
  });

  test('other routes take none', () => {
    expect(() => parseNoQuery(new URLSearchParams(''))).not.toThrow();
    for (const query of ['a=1', 'limit=1', 'a', '=']) {
      expect(refusalOf(() => parseNoQuery(new URLSearchParams(query)))).toMatch(
        /^INVALID_REQUEST: .*takes none/,
      );
    }
  });
});
