import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { canonicalRootRefPayload, parseUpdateRootRefsRequest } from './requests.ts';

const hash = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const delta = fc.integer({ min: -1_000_000, max: 1_000_000 });
const changes = fc.uniqueArray(fc.record({ hash, delta }), {
  minLength: 1,
  maxLength: 20,
  selector: (row) => row.hash,
});

function payloadOf(body: string): string {
  return canonicalRootRefPayload(parseUpdateRootRefsRequest(new TextEncoder().encode(body)).changes);
}

describe('canonicalRootRefPayload', () => {
  const a = 'aa'.repeat(32);
  const b = 'bb'.repeat(32);

  test('has one fixed form: stored digests depend on it', () => {
    expect(
      canonicalRootRefPayload([
        { hash: b, delta: -0 },
        { hash: a, delta: -12 },
      ]),
    ).toBe(`{"${a}":-12,"${b}":0}`);
  });

  test('key order, whitespace and number forms do not matter', () => {
    const expected = `{"${a}":100,"${b}":0}`;
    for (const map of [
      `{"${a}":100,"${b}":0}`,
      `{ "${b}" : -0 ,\n\t"${a}" : 1e2 }`,
      `{"${b}":0.0e7,"\\u0061${a.slice(1)}":100.0}`,
    ]) {
      expect(payloadOf(`{"requestId":"r","changes":${map}}`)).toBe(expected);
      expect(payloadOf(`{"changes":${map}, "requestId":"other"}`)).toBe(expected);
    }
  });

  test('equal maps and only equal maps share a payload', () => {
    fc.assert(
      fc.property(changes, changes, fc.boolean(), (left, other, same) => {
        const right = same ? left.toReversed() : other;
        const map = (rows: typeof left) => JSON.stringify(rows.map((row) => [row.hash, row.delta]).sort());
        const equal = canonicalRootRefPayload(left) === canonicalRootRefPayload(right);
        expect(equal).toBe(map(left) === map(right));
      }),
    );
  });

  test('does not reorder what it was given', () => {
    const given = [
      { hash: b, delta: 1 },
      { hash: a, delta: 1 },
    ];
    canonicalRootRefPayload(given);
    expect(given.map((row) => row.hash)).toEqual([b, a]);
  });
});
