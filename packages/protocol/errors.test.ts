import { describe, expect, test } from 'bun:test';
import { ApiError, ERROR_STATUS, isErrorCode } from './errors.ts';

describe('errors', () => {
  test('every code has the status of docs/api.md', () => {
    const byStatus: Record<number, string[]> = {};
    for (const [code, status] of Object.entries(ERROR_STATUS)) {
      byStatus[status] = [...(byStatus[status] ?? []), code].sort();
    }
    expect(byStatus).toEqual({
      400: ['INVALID_REQUEST'],
      401: ['UNAUTHORIZED', 'invalid_token', 'missing_token', 'unknown_issuer', 'unsupported_algorithm'],
      403: ['APP_SUSPENDED', 'FORBIDDEN', 'insufficient_permission', 'resource_scope_mismatch'],
      404: ['NOT_FOUND'],
      409: ['CONFLICT', 'IDEMPOTENCY_CONFLICT'],
      413: ['PAYLOAD_TOO_LARGE'],
      429: ['CAS_UPLOAD_LIMIT', 'RESOURCE_EXHAUSTED'],
      500: ['INTERNAL_ERROR'],
      503: ['SERVICE_UNAVAILABLE', 'registry_unavailable'],
    });
  });

  test('an ApiError takes its status from the code, unless told otherwise', () => {
    const plain = new ApiError('CONFLICT', 'why');
    expect(plain).toMatchObject({ name: 'ApiError', code: 'CONFLICT', status: 409, message: 'why' });
    expect([plain.retryAfterSeconds, plain.headers, plain.cause]).toEqual([undefined, undefined, undefined]);
    expect('cause' in plain).toBe(false);
    const cause = new Error('inner');
    const range = new ApiError('INVALID_REQUEST', 'why', {
      status: 416,
      headers: { 'content-range': 'bytes */7' },
      retryAfterSeconds: 2,
      cause,
    });
    expect(range).toMatchObject({
      status: 416,
      retryAfterSeconds: 2,
      cause,
      headers: { 'content-range': 'bytes */7' },
    });
    expect(range).toBeInstanceOf(Error);
  });

  test('knows its codes and no inherited name', () => {
    expect(isErrorCode('APP_SUSPENDED')).toBe(true);
    for (const other of ['toString', '__proto__', '', 'NODE_TOO_LARGE', undefined, 404]) {
      expect(isErrorCode(other)).toBe(false);
    }
  });
});
