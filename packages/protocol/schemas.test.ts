import { describe, expect, test } from 'bun:test';
import Ajv2020 from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { parseBulkLeaseRequest, parseBulkReadRequest } from './bulk/bulk-requests.ts';
import { ApiError } from './errors.ts';
import { isHash } from './hash.ts';
import { isPathId, isRefDomain } from './ids.ts';
import { parseGcRequest, parseLeaseRequest, parseUpdateRootRefsRequest } from './requests.ts';
import { SCHEMAS, type SchemaName } from './schemas.ts';

const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema({ $id: 'https://holdfast.test/api', components: { schemas: SCHEMAS } });

function compile(name: SchemaName) {
  return ajv.compile({ $ref: `https://holdfast.test/api#/components/schemas/${name}` });
}

const encoder = new TextEncoder();

function accepts(parse: (bytes: Uint8Array) => unknown, text: string): boolean {
  try {
    parse(encoder.encode(text));
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    return false;
  }
}

/** The parser and the schema give one verdict on what JSON.stringify writes: no twins, no rounding in it. */
function expectAgreement(
  parse: (bytes: Uint8Array) => unknown,
  name: SchemaName,
  value: fc.Arbitrary<unknown>,
): void {
  const validate = compile(name);
  const seen = { accepted: 0, refused: 0 };
  fc.assert(
    fc.property(value, (body) => {
      const text = JSON.stringify(body);
      const verdict = validate(JSON.parse(text));
      expect(accepts(parse, text)).toBe(verdict);
      if (verdict) seen.accepted++;
      else seen.refused++;
    }),
    { numRuns: 1500 },
  );
  // Agreement on one verdict alone would prove little.
  expect(seen.accepted).toBeGreaterThan(50);
  expect(seen.refused).toBeGreaterThan(50);
}

const anything = fc.jsonValue({ stringUnit: 'binary', maxDepth: 3 });
const number = fc.oneof(
  fc.integer({ min: -2, max: 2 }),
  fc.integer({ min: -1_000_002, max: 1_000_002 }),
  fc.constantFrom(1_000_000, 1_000_001, -1_000_000, -1_000_001, 10_000, 10_001),
  fc.constantFrom(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER + 1, -0, 1e300, 0.5),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);
const field = fc.oneof({ arbitrary: number, weight: 4 }, { arbitrary: anything, weight: 1 });
const extra = fc.oneof(
  { arbitrary: fc.constant({}), weight: 5 },
  {
    arbitrary: fc.dictionary(fc.string({ unit: 'binary' }), anything, { minKeys: 1, maxKeys: 2 }),
    weight: 1,
  },
);

function withExtra(record: fc.Arbitrary<object>): fc.Arbitrary<unknown> {
  const spread = fc.tuple(record, extra).map(([body, more]) => ({ ...more, ...body }));
  return fc.oneof({ arbitrary: spread, weight: 9 }, { arbitrary: anything, weight: 1 });
}

describe('parsers and schemas agree', () => {
  test('LeaseRequest', () => {
    const body = fc.record({ leaseDurationMs: field }, { requiredKeys: [] });
    expectAgreement(parseLeaseRequest, 'LeaseRequest', withExtra(body));
  });

  const list = fc.array(
    fc.oneof(
      { arbitrary: fc.constantFrom('a', 'b', 'c', 'd').map((digit) => digit.repeat(64)), weight: 12 },
      { arbitrary: fc.constantFrom('A'.repeat(64), 'a'.repeat(63), ''), weight: 1 },
    ),
    { maxLength: 3 },
  );
  const hashes = fc.oneof({ arbitrary: list, weight: 9 }, { arbitrary: anything, weight: 1 });

  test('BulkLeaseRequest', () => {
    const pack = fc.oneof({ arbitrary: fc.boolean(), weight: 6 }, { arbitrary: anything, weight: 1 });
    const leaseDurationMs = fc.oneof({ arbitrary: fc.integer({ min: 1, max: 100_000 }), weight: 4 }, field);
    const body = fc.record(
      { leaseDurationMs, hashes, pack },
      { requiredKeys: ['leaseDurationMs', 'hashes'] },
    );
    expectAgreement(parseBulkLeaseRequest, 'BulkLeaseRequest', withExtra(body));
  });

  test('BulkReadRequest', () => {
    const known = fc.array(fc.constantFrom('zstd', 'zstd', 'gzip'), { maxLength: 2 });
    const codecs = fc.oneof({ arbitrary: known, weight: 6 }, { arbitrary: anything, weight: 1 });
    const body = fc.record({ hashes, codecs }, { requiredKeys: ['hashes'] });
    expectAgreement(parseBulkReadRequest, 'BulkReadRequest', withExtra(body));
  });

  test('the number of hashes', () => {
    const validate = compile('BulkReadRequest');
    for (const count of [0, 1, 4096, 4097]) {
      const body = { hashes: [...Array(count).keys()].map((at) => at.toString(16).padStart(64, '0')) };
      expect(validate(body)).toBe(count >= 1 && count <= 4096);
      expect(accepts(parseBulkReadRequest, JSON.stringify(body))).toBe(count >= 1 && count <= 4096);
    }
  });

  test('GcRequest', () => {
    const body = fc.record({ maxNodes: field }, { requiredKeys: [] });
    expectAgreement(parseGcRequest, 'GcRequest', withExtra(body));
  });

  test('UpdateRootRefsRequest', () => {
    const hash = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 64, maxLength: 64 });
    const key = fc.oneof(
      { arbitrary: hash, weight: 20 },
      {
        arbitrary: fc.constantFrom('__proto__', 'AB'.repeat(32), 'ab'.repeat(31), 'constructor', ''),
        weight: 1,
      },
    );
    const delta = fc.oneof({ arbitrary: fc.integer({ min: -1_000_000, max: 1_000_000 }), weight: 9 }, field);
    const map = fc.array(fc.tuple(key, delta), { maxLength: 4 }).map((pairs) => Object.fromEntries(pairs));
    const requestId = fc.oneof(
      { arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }), weight: 6 },
      {
        arbitrary: fc.constantFrom('', 'x'.repeat(256), 'x'.repeat(257), '😀'.repeat(256), '😀'.repeat(257)),
        weight: 2,
      },
      { arbitrary: anything, weight: 1 },
    );
    const changes = fc.oneof({ arbitrary: map, weight: 9 }, { arbitrary: anything, weight: 1 });
    const body = fc.oneof(
      { arbitrary: fc.record({ requestId, changes }), weight: 9 },
      fc.record({ requestId, changes }, { requiredKeys: [] }),
    );
    expectAgreement(parseUpdateRootRefsRequest, 'UpdateRootRefsRequest', withExtra(body));
  });

  test('the number of changes', () => {
    const validate = compile('UpdateRootRefsRequest');
    for (const count of [0, 1, 1000, 1001]) {
      const keys = [...Array(count).keys()].map((at) => [at.toString(16).padStart(64, '0'), 0]);
      const body = { requestId: 'r', changes: Object.fromEntries(keys) };
      expect(validate(body)).toBe(count >= 1 && count <= 1000);
      expect(accepts(parseUpdateRootRefsRequest, JSON.stringify(body))).toBe(count >= 1 && count <= 1000);
    }
  });
});

describe('rules and schemas agree', () => {
  test('PathId', () => {
    const validate = compile('PathId');
    const code = fc.oneof(fc.integer({ min: 0, max: 0xa1 }), fc.integer({ min: 0x20, max: 0x7e }));
    const id = fc.oneof(
      fc.string({ unit: code.map((point) => String.fromCodePoint(point)), maxLength: 6 }),
      fc.string({ unit: 'binary', maxLength: 300, size: 'max' }),
      fc.constantFrom(
        '',
        '.',
        '..',
        '...',
        'x'.repeat(256),
        'x'.repeat(257),
        '😀'.repeat(256),
        '😀'.repeat(257),
      ),
    );
    fc.assert(
      fc.property(id, (text) => {
        expect(validate(text)).toBe(isPathId(text));
      }),
      { numRuns: 1000 },
    );
  });

  test('RefDomain', () => {
    const validate = compile('RefDomain');
    const domain = fc.oneof(
      fc.string({ unit: fc.constantFrom('a', 'z', '0', '9', ':', 'A', '-', 'é', '\n'), maxLength: 6 }),
      fc.constantFrom('a'.repeat(64), 'a'.repeat(65), `a:${'b'.repeat(62)}`, `a:${'b'.repeat(63)}`),
    );
    fc.assert(
      fc.property(domain, (text) => {
        expect(validate(text)).toBe(isRefDomain(text));
      }),
      { numRuns: 1000 },
    );
  });

  test('Hash', () => {
    const validate = compile('Hash');
    const hash = fc.string({
      unit: fc.constantFrom('0', '9', 'a', 'f', 'g', 'A'),
      minLength: 62,
      maxLength: 66,
    });
    const hex = fc.string({ unit: fc.constantFrom('0', '9', 'a', 'f'), minLength: 63, maxLength: 65 });
    fc.assert(
      fc.property(fc.oneof(hash, hex), (text) => {
        expect(validate(text)).toBe(isHash(text));
      }),
      { numRuns: 500 },
    );
  });
});

describe('every schema', () => {
  test.each(Object.keys(SCHEMAS) as SchemaName[])('%s compiles', (name) => {
    expect(typeof compile(name)).toBe('function');
  });

  test('the four lease shapes exclude each other', () => {
    const validate = compile('LeaseResponse');
    const hash = 'ab'.repeat(32);
    const upload = {
      method: 'PUT',
      url: 'http://127.0.0.1/uploads/x',
      expiresAt: 1,
      headers: { 'content-type': 'a', 'if-none-match': '*' },
    };
    const rejection = { code: 'NODE_TOO_LARGE', message: 'm' };
    const good = [
      { state: 'ready', hash, leaseStartedAt: 0, leaseExpiresAt: 1 },
      { state: 'awaiting_upload', hash, upload },
      { state: 'awaiting_replacement_upload', hash, rejection, upload },
      { state: 'validated_awaiting_children', hash, childHashes: [hash] },
    ];
    for (const body of good) expect(validate(body)).toBe(true);
    const bad = [
      { state: 'ready', hash, upload },
      { state: 'awaiting_upload', hash, upload, rejection },
      { state: 'awaiting_replacement_upload', hash, upload },
      { state: 'awaiting_replacement_upload', hash, upload, rejection: { ...rejection, code: 'CONFLICT' } },
      { state: 'awaiting_upload', hash, upload: { ...upload, headers: { 'content-type': 'a' } } },
      { state: 'awaiting_upload', hash, upload: { ...upload, method: 'POST' } },
      { state: 'validated_awaiting_children', hash, childHashes: [] },
      { state: 'validated_awaiting_children', hash, childHashes: [hash, hash] },
      { state: 'other', hash },
    ];
    for (const body of bad) expect(validate(body)).toBe(false);
  });
});
