/** A refusal is explained by what the token itself says, against what the request was sent to. */
import { expect, test } from 'bun:test';
import { CasError, type CasErrorCode } from '@holdfast/client';
import { explainCasError } from './advice.ts';

const NOW = 1_800_000_000_000;
const CLAIMS = {
  iss: 'https://i.test',
  aud: 'holdfast',
  iat: NOW / 1_000 - 60,
  exp: NOW / 1_000 + 3_600,
  spaceId: 'home',
  permissions: ['cas:nodes:read'],
};

const used = { baseUrl: 'http://127.0.0.1:8420', appId: 'demo', spaceId: 'home', token: 'secret' };

function explain(code: CasErrorCode, message: string, claims: object | undefined, status = 401): string {
  const token =
    claims === undefined ? 'secret' : `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.secret`;
  const error = new CasError(`getUsage: ${message}`, { code, status, requestOperation: 'getUsage' });
  const line = explainCasError(
    error,
    { baseUrl: 'http://127.0.0.1:8420/x', appId: 'demo', spaceId: 'home', token },
    NOW,
  );
  expect(line).not.toContain('secret');
  // The SDK's name for it is nothing that a person has typed.
  expect(line).not.toContain('getUsage');
  return line;
}

test.each<[string, CasErrorCode, string, object | undefined, string]>([
  [
    'expired',
    'invalid_token',
    'no',
    { ...CLAIMS, exp: NOW / 1_000 - 720 },
    'the token expired 12 min 0 s ago',
  ],
  [
    'another audience',
    'invalid_token',
    'its "aud" is wrong',
    { ...CLAIMS, aud: 'other' },
    'audience is "other"',
  ],
  [
    'too long',
    'invalid_token',
    '"exp" minus "iat" is more',
    { ...CLAIMS, exp: NOW / 1_000 + 200_000 },
    'shorter --ttl',
  ],
  ['another key', 'invalid_token', 'its signature does not match', CLAIMS, 'sign it with the private key'],
  ['no token', 'invalid_token', 'no', undefined, 'the given text is no token'],
  [
    'another Space',
    'resource_scope_mismatch',
    'no',
    { ...CLAIMS, spaceId: 'work' },
    'for the Space "work" and HOLDFAST_SPACE or --space says "home"',
  ],
  ['no refDomain', 'resource_scope_mismatch', 'no', CLAIMS, 'root refs need a token made with --ref-domain'],
  [
    'another App',
    'resource_scope_mismatch',
    'no',
    { ...CLAIMS, refDomain: 'd' },
    'belongs to another App than "demo"',
  ],
  [
    'no permission',
    'insufficient_permission',
    'no',
    CLAIMS,
    'the token permits cas:nodes:read: use one made with --permission cas:usage:read',
  ],
  ['another issuer', 'unknown_issuer', 'no', CLAIMS, 'issuer is "https://i.test"'],
  [
    'no route',
    'NOT_FOUND',
    'there is no such route',
    CLAIMS,
    'check HOLDFAST_URL or --url: http://127.0.0.1:8420/x',
  ],
  ['no API', 'MALFORMED_RESPONSE', 'the answer is not JSON', CLAIMS, 'check HOLDFAST_URL or --url'],
])('%s', (_, code, message, claims, advice) => {
  expect(explain(code, message, claims)).toContain(advice);
});

test('an answer whose error says what to check gets no other advice', () => {
  const error = new CasError('readNodes: the pack that came is cut off; check any proxy in between', {
    ...{ code: 'MALFORMED_RESPONSE', requestOperation: 'readNodes', isBrokenOnTheWay: true },
  });
  expect(explainCasError(error, used)).toBe(
    'the pack that came is cut off; check any proxy in between (MALFORMED_RESPONSE)',
  );
});

test('an answer that is too large is one for a file only where it is content', () => {
  const explainLarge = (requestOperation: 'getUsage' | 'readContent', status?: number): string =>
    explainCasError(
      new CasError('too large', { code: 'RESPONSE_TOO_LARGE', status, requestOperation }),
      used,
    );
  expect(explainLarge('getUsage', 200)).toContain('check HOLDFAST_URL or --url');
  expect(explainLarge('getUsage')).not.toContain(';');
  expect(explainLarge('readContent', 200)).toContain('write it to a file or a pipe instead');
});

test('a node that is not there says nothing of the address', () => {
  expect(explain('NOT_FOUND', 'there is no such node', CLAIMS, 404)).not.toContain('HOLDFAST_URL');
});

test('a call that makes several requests is not named either', () => {
  const error = new CasError('putNode: the server rejected the node: too large', {
    code: 'NODE_TOO_LARGE',
    requestOperation: 'leaseNode',
  });
  expect(explainCasError(error, used)).toBe('the server rejected the node: too large (NODE_TOO_LARGE)');
});

test('a refusal of a request of Bulk names the permission to ask for', () => {
  const details = { code: 'insufficient_permission', status: 403, requestOperation: 'leaseNodes' } as const;
  const error = new CasError('leaseNodes: the token lacks the permission cas:nodes:lease', details);
  expect(explainCasError(error, used, NOW)).toEndWith('use one made with --permission cas:nodes:lease');
});
