import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { CasError, type CasErrorCode } from './errors.ts';
import { parseRetryAfter, planBackoff, planRetry, RETRY_POLICY_DEFAULT } from './retry.ts';

const POLICY = RETRY_POLICY_DEFAULT;
const NOW = Date.UTC(2026, 10, 21, 12, 0, 0);

function error(code: CasErrorCode, status?: number, retryAfterMs?: number): CasError {
  return new CasError('planted', { code, status, retryAfterMs, requestOperation: 'getUsage' });
}

describe('planRetry', () => {
  test('no 4xx but 429, whatever its code', () => {
    fc.assert(
      fc.property(fc.integer({ min: 400, max: 499 }), fc.integer({ min: 1, max: 3 }), (status, attempt) => {
        const delay = planRetry(attempt, error('INVALID_REQUEST', status, 0), POLICY, Math.random);
        expect(delay !== undefined).toBe(status === 429);
        // Without a time to wait it is a quota, which waiting does not free.
        expect(planRetry(attempt, error('RESOURCE_EXHAUSTED', status), POLICY, Math.random)).toBeUndefined();
      }),
    );
  });

  test('failures of the connection, of time and of the server are tried again, up to the limit', () => {
    for (const failure of [
      error('CONNECTION_FAILED'),
      error('TIMED_OUT'),
      error('INTERNAL_ERROR', 500),
      error('SERVICE_UNAVAILABLE', 502),
      error('SERVICE_UNAVAILABLE', 503),
      error('SERVICE_UNAVAILABLE', 504),
    ]) {
      expect(planRetry(1, failure, POLICY, () => 0.5)).toBe(100);
      expect(planRetry(2, failure, POLICY, () => 0.5)).toBe(200);
      expect(planRetry(3, failure, POLICY, () => 0.5)).toBe(400);
      expect(planRetry(4, failure, POLICY, () => 0.5)).toBeUndefined();
    }
  });

  test('what cannot pass is final', () => {
    for (const failure of [
      error('MALFORMED_RESPONSE', 200),
      error('RESPONSE_TOO_LARGE', 200),
      error('INVALID_ARGUMENT'),
      error('TOKEN_UNAVAILABLE'),
      error('MALFORMED_RESPONSE', 501),
      new TypeError('a bug'),
    ]) {
      expect(planRetry(1, failure, POLICY, () => 0.5)).toBeUndefined();
    }
  });

  test('never earlier than the server asks, and not at all when it asks for too long', () => {
    fc.assert(
      fc.property(fc.nat(60_000), fc.double({ min: 0, max: 0.999, noNaN: true }), (retryAfterMs, roll) => {
        const delay = planRetry(1, error('CAS_UPLOAD_LIMIT', 429, retryAfterMs), POLICY, () => roll);
        if (retryAfterMs > POLICY.retryAfterMsMax) expect(delay).toBeUndefined();
        else {
          expect(delay).toBeGreaterThanOrEqual(retryAfterMs);
          expect(delay).toBeLessThanOrEqual(retryAfterMs + POLICY.delayMsBase);
        }
      }),
    );
  });

  test('waits stay within their bound', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2_000 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (attempt, roll) => {
          const delay = planBackoff(attempt, POLICY, () => roll);
          expect(delay).toBeGreaterThanOrEqual(0);
          expect(delay).toBeLessThanOrEqual(POLICY.delayMsMax);
        },
      ),
    );
  });
});

describe('parseRetryAfter', () => {
  test('seconds and dates', () => {
    expect(parseRetryAfter('0', NOW)).toBe(0);
    expect(parseRetryAfter(' 7 ', NOW)).toBe(7_000);
    for (const header of ['9'.repeat(17), '9'.repeat(400)])
      expect(parseRetryAfter(header, NOW)).toBe(Number.MAX_SAFE_INTEGER);
    expect(parseRetryAfter('Sat, 21 Nov 2026 12:00:30 GMT', NOW)).toBe(30_000);
    expect(parseRetryAfter('Sat, 21 Nov 2026 11:00:00 GMT', NOW)).toBe(0);
  });

  test('anything else is as good as absent', () => {
    for (const header of [null, '', '-1', '1.5', '1e3', 'soon', '2026-11-21', 'Sat, nonsense']) {
      expect(parseRetryAfter(header, NOW)).toBeUndefined();
    }
  });

  test('any header gives a wait of 0 or more, or none', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.nat().map(String), fc.date().map(String)), (header) => {
        const ms = parseRetryAfter(header, NOW);
        if (ms !== undefined) expect(ms).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

test('a server that asks for no wait is not asked again at once for ever', () => {
  const busy = error('RESOURCE_EXHAUSTED', 429, 0);
  const policy = { ...POLICY, attemptsMax: 20 };
  expect(planRetry(10, busy, policy, () => 0.5)).toBe(planBackoff(10, policy, () => 0.5));
});
