import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { MalformedAnswer } from './answer-fields.ts';
import {
  parseErrorAnswer,
  parseGcResult,
  parseHealth,
  parseLeaseResponse,
  parseNodeDescription,
  parseRootRefPage,
  parseSpaceUsage,
  parseUpdateRootRefsResponse,
} from './parse-answers.ts';

import { USAGE } from './test/fake-space-fixture.ts';

const HASH = 'a'.repeat(64);
const OTHER = 'b'.repeat(64);
const UPLOAD = {
  method: 'PUT',
  url: 'https://store.test/key?sig=1',
  expiresAt: 5,
  headers: { 'content-type': 'x/y', 'if-none-match': '*' },
};
const lease = (value: unknown) => parseLeaseResponse(value, HASH);

/** A parser with answers that it takes as they are; every field of each is required. */
const ANSWERS: readonly [name: string, parse: (value: unknown) => unknown, valid: object][] = [
  [
    'metadata',
    parseNodeDescription,
    {
      metadata: { hash: HASH, size: 3, contentType: 'x/y', refs: [OTHER, OTHER] },
      state: { leaseStartedAt: 1, leaseExpiresAt: 2, childRefCount: 3, rootRefCount: -4 },
    },
  ],
  ['ready', lease, { state: 'ready', hash: HASH, leaseStartedAt: 1, leaseExpiresAt: 2 }],
  ['awaiting upload', lease, { state: 'awaiting_upload', hash: HASH, upload: UPLOAD }],
  [
    'awaiting replacement',
    lease,
    {
      state: 'awaiting_replacement_upload',
      hash: HASH,
      rejection: { code: 'NODE_TOO_LARGE', message: 'too large' },
      upload: UPLOAD,
    },
  ],
  ['awaiting children', lease, { state: 'validated_awaiting_children', hash: HASH, childHashes: [OTHER] }],
  ['usage', parseSpaceUsage, USAGE],
  ['gc', parseGcResult, { examined: 1, deleted: 1, reclaimedContentBytes: 9 }],
  [
    'page',
    parseRootRefPage,
    { refDomain: 'app', revision: 3, items: [{ hash: HASH, refCount: -1 }], nextCursor: 'more' },
  ],
  ['last page', parseRootRefPage, { refDomain: 'app', revision: 3, items: [], nextCursor: null }],
  ['commit', parseUpdateRootRefsResponse, { success: true, idempotent: false, revision: 1 }],
  ['health', parseHealth, { status: 'ok' }],
];

/** Every path to a value inside `value`, but not into the free map of headers. */
function paths(value: unknown, path: readonly (string | number)[] = []): (readonly (string | number)[])[] {
  if (typeof value !== 'object' || value === null) return [path];
  const keys = Array.isArray(value) ? value.keys() : Object.keys(value);
  const inside = [...keys].flatMap((key) =>
    path.at(-1) === 'headers' ? [] : paths(value[key as never], [...path, key]),
  );
  return path.length === 0 ? inside : [path, ...inside];
}

function withChange(
  value: object,
  path: readonly (string | number)[],
  change: (parent: never, key: never) => void,
): object {
  const copy = structuredClone(value);
  const parent = path.slice(0, -1).reduce<unknown>((at, key) => at?.[key as never], copy);
  change(parent as never, path.at(-1) as never);
  return copy;
}

describe('answers', () => {
  for (const [name, parse, valid] of ANSWERS) {
    test(`${name}: taken as it is, and what is not known is left out`, () => {
      expect(parse(valid)).toEqual(valid);
      expect(parse({ ...valid, later: 1 })).toEqual(valid);
    });

    test(`${name}: refused with any field missing or of another type`, () => {
      for (const path of paths(valid)) {
        const replacements = [undefined, null, [], {}, '', -1.5, 2 ** 53, Number.NaN, true, 'A'.repeat(64)];
        const wrong = replacements.map((replacement) =>
          withChange(valid, path, (parent: Record<string, unknown>, key: string) => {
            parent[key] = replacement;
          }),
        );
        for (const answer of wrong) {
          let parsed: unknown;
          try {
            parsed = parse(answer);
          } catch (error) {
            expect(error).toBeInstanceOf(MalformedAnswer);
            continue;
          }
          // Some replacements are good values for that field; none may come out as anything else.
          expect(parsed).toEqual(answer as never);
        }
        expect(() =>
          parse(
            withChange(valid, path, (parent: Record<string, unknown>, key: string) => {
              parent[key] = undefined;
            }),
          ),
        ).toThrow(MalformedAnswer);
      }
    });
  }

  test('any JSON is taken or refused, never anything else', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        for (const [, parse] of ANSWERS) {
          try {
            parse(value);
          } catch (error) {
            expect(error).toBeInstanceOf(MalformedAnswer);
          }
        }
      }),
    );
  });

  test('an answer about another node, an unknown state, and addresses that are none', () => {
    const ready = { state: 'ready', hash: OTHER, leaseStartedAt: 1, leaseExpiresAt: 2 };
    expect(() => lease(ready)).toThrow('hash');
    expect(() => lease({ ...ready, hash: HASH, state: 'toString' })).toThrow('lease states');
    for (const url of ['file:///etc/passwd', 'javascript:alert(1)', '//store.test/x', 'https://', '']) {
      expect(() => lease({ state: 'awaiting_upload', hash: HASH, upload: { ...UPLOAD, url } })).toThrow(
        'url',
      );
    }
    for (const headers of [{ 'a b': 'x' }, { a: 'x\r\ny: z' }, { a: 1 }, { '': 'x' }]) {
      expect(() => lease({ state: 'awaiting_upload', hash: HASH, upload: { ...UPLOAD, headers } })).toThrow(
        'headers',
      );
    }
  });
});

describe('error answers', () => {
  const encode = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

  test('the envelope is believed', () => {
    const body = encode({ error: 'NOT_FOUND', message: 'no such node' });
    expect(parseErrorAnswer(404, body, 'readMetadata')).toEqual({
      code: 'NOT_FOUND',
      message: 'no such node',
    });
    expect(parseErrorAnswer(404, encode({ error: 'NOT_FOUND' }), 'readMetadata').code).toBe('NOT_FOUND');
  });

  test('a 404 of something else is never taken for an absent node', () => {
    for (const body of [undefined, new Uint8Array(0), encode('NOT_FOUND'), encode({ error: 'toString' })]) {
      expect(parseErrorAnswer(404, body, 'readMetadata').code).toBe('MALFORMED_RESPONSE');
    }
  });

  test('bare answers of proxies keep the meaning of their status', () => {
    expect(parseErrorAnswer(503, undefined, 'getUsage').code).toBe('SERVICE_UNAVAILABLE');
    expect(parseErrorAnswer(429, undefined, 'getUsage').code).toBe('RESOURCE_EXHAUSTED');
    expect(parseErrorAnswer(302, undefined, 'getUsage').message).toContain('redirect');
    expect(parseErrorAnswer(400, encode({ error: 'NEW_CODE' }), 'getUsage').message).toContain('NEW_CODE');
    expect(parseErrorAnswer(400, new Uint8Array([0x3c]), 'uploadNode').code).toBe('UPLOAD_REFUSED');
    const tooLarge = parseErrorAnswer(413, encode('<html>'), 'uploadPack');
    expect(tooLarge.code).toBe('UPLOAD_REFUSED');
    expect(tooLarge.message).toContain('answered 413 without saying why: let any proxy');
  });

  test('long messages are cut', () => {
    const body = encode({ error: 'NOT_FOUND', message: 'x'.repeat(1e5) });
    expect(parseErrorAnswer(404, body, 'readMetadata').message.length).toBeLessThanOrEqual(1_000);
  });
});
