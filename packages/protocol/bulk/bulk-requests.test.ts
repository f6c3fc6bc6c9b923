import { describe, expect, test } from 'bun:test';
import { ApiError } from '../errors.ts';
import { parseBulkLeaseRequest, parseBulkReadRequest } from './bulk-requests.ts';

const a = 'aa'.repeat(32);
const b = 'bb'.repeat(32);
const bytes = (value: unknown): Uint8Array =>
  new TextEncoder().encode(typeof value === 'string' ? value : JSON.stringify(value));
const many = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => index.toString(16).padStart(64, '0'));

function refusalOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    return `${(error as ApiError).status} ${(error as ApiError).code}: ${(error as ApiError).message}`;
  }
  return 'none';
}

describe('parseBulkLeaseRequest', () => {
  test('takes what it should', () => {
    expect(parseBulkLeaseRequest(bytes({ leaseDurationMs: 5, hashes: [b, a] }))).toEqual({
      leaseDurationMs: 5,
      hashes: [b, a],
      pack: false,
    });
    for (const pack of [true, false]) {
      expect(parseBulkLeaseRequest(bytes({ pack, hashes: [a], leaseDurationMs: 1 })).pack).toBe(pack);
    }
    const hashes = many(4096);
    expect(parseBulkLeaseRequest(bytes({ leaseDurationMs: 1, hashes })).hashes).toEqual(hashes);
  });

  test.each<[unknown, RegExp]>([
    ['', /not valid JSON/],
    ['[]', /must be a JSON object/],
    [{ hashes: [a] }, /leaseDurationMs is missing/],
    [{ leaseDurationMs: 0, hashes: [a] }, /leaseDurationMs must be/],
    [{ leaseDurationMs: 1 }, /hashes is missing; it must be an array of 1 to 4096/],
    [{ leaseDurationMs: 1, hashes: [] }, /hashes has 0 entries/],
    [{ leaseDurationMs: 1, hashes: many(4097) }, /hashes has 4097 entries/],
    [{ leaseDurationMs: 1, hashes: { 0: a } }, /hashes is not an array/],
    [{ leaseDurationMs: 1, hashes: [a, b, a] }, /hashes\[2\] stands in the array before/],
    [{ leaseDurationMs: 1, hashes: [a.toUpperCase()] }, /hashes\[0\] must be 64 lowercase/],
    [{ leaseDurationMs: 1, hashes: [a, null] }, /hashes\[1\] must be/],
    [{ leaseDurationMs: 1, hashes: [a], pack: 1 }, /pack must be true or false/],
    [{ leaseDurationMs: 1, hashes: [a], pack: null }, /pack must be true or false/],
    [{ leaseDurationMs: 1, hashes: [a], codecs: [] }, /field "codecs" is not known/],
    [{ leaseDurationMs: 1, hashes: Array(16_383).fill(0) }, /more than 16384 values stand in it/],
    [`{"leaseDurationMs":1,"hashes":["${a}"],"hashes":["${b}"]}`, /twice|duplicate/i],
  ])('refuses body %#', (body, message) => {
    const refusal = refusalOf(() => parseBulkLeaseRequest(bytes(body)));
    expect(refusal).toMatch(/^400 INVALID_REQUEST: /);
    expect(refusal).toMatch(message);
  });

  test('refuses a body over 1 MiB as too large', () => {
    expect(refusalOf(() => parseBulkLeaseRequest(bytes(' '.repeat(1024 * 1024 + 1))))).toMatch(/^413 /);
  });
});

describe('parseBulkReadRequest', () => {
  test('takes what it should', () => {
    expect(parseBulkReadRequest(bytes({ hashes: [b, a] }))).toEqual({ hashes: [b, a], codecs: [] });
    expect(parseBulkReadRequest(bytes({ hashes: [a], codecs: [] })).codecs).toEqual([]);
    expect(parseBulkReadRequest(bytes({ hashes: [a], codecs: ['zstd'] })).codecs).toEqual(['zstd']);
  });

  test.each<[unknown, RegExp]>([
    [{}, /hashes is missing/],
    [{ hashes: [a, a] }, /hashes\[1\] stands in the array before/],
    [{ hashes: [a], codecs: 'zstd' }, /codecs is not an array/],
    [{ hashes: [a], codecs: null }, /codecs is not an array/],
    [{ hashes: [a], codecs: ['gzip'] }, /codec "gzip" is not known/],
    [{ hashes: [a], codecs: ['zstd', 'br'] }, /codec "br" is not known/],
    [{ hashes: [a], codecs: ['ZSTD'] }, /codec "ZSTD" is not known/],
    [{ hashes: [a], codecs: [1] }, /codecs: it must be an array of codecs/],
    [{ hashes: [a], codecs: ['zstd', 'zstd'] }, /codec zstd occurs twice/],
    [{ hashes: [a], leaseDurationMs: 1 }, /field "leaseDurationMs" is not known/],
  ])('refuses body %#', (body, message) => {
    const refusal = refusalOf(() => parseBulkReadRequest(bytes(body)));
    expect(refusal).toMatch(/^400 INVALID_REQUEST: /);
    expect(refusal).toMatch(message);
  });
});
