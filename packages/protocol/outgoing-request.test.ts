import { describe, expect, test } from 'bun:test';
import { describeProxyAnswer, describeProxyFailure, findCertificateFailure } from './outgoing-request.ts';

const PROXY = 'http://someone:secret@proxy.test:3128';
const failed = (code: string, message = code): Error => Object.assign(new Error(message), { code });
const answer = (status: number, type = 'text/html') => ({
  status,
  headers: new Headers({ 'content-type': type }),
});

describe('a failure on the way is the proxy’s', () => {
  test.each([
    [{ HTTPS_PROXY: PROXY }, 'https://a.test/x', true],
    [{ https_proxy: PROXY }, 'https://a.test/x', true],
    [{ HTTP_PROXY: PROXY }, 'http://a.test/x', true],
    [{ ALL_PROXY: 'proxy.test:3128' }, 'http://a.test/x', true],
    [{ HTTP_PROXY: PROXY }, 'https://a.test/x', false],
    [{ HTTP_PROXY: PROXY, NO_PROXY: 'b.test, .a.test' }, 'http://s.a.test/x', false],
    [{ HTTP_PROXY: PROXY, NO_PROXY: 'a.test' }, 'http://aa.test/x', true],
    [{ HTTP_PROXY: PROXY, no_proxy: '*' }, 'http://a.test/x', false],
    [{ HTTP_PROXY: PROXY, no_proxy: '[::1]:80' }, 'http://[::1]:8080/x', true],
    [{ HTTP_PROXY: PROXY, no_proxy: '::1' }, 'http://[::1]:8080/x', false],
    [{}, 'http://a.test/x', false],
  ])('with %p to %p: %p', (variables, url, isProxied) => {
    const said = describeProxyFailure(url, variables, failed('ECONNREFUSED'));
    expect(said !== undefined).toBe(isProxied);
    if (isProxied)
      expect(said).toMatch(/^the proxy proxy\.test:3128 \((\w+)\) cannot be reached.*ECONNREFUSED/);
    expect(said ?? '').not.toContain('secret');
  });

  test('its answer to CONNECT too, with what it wants', () => {
    const refused = failed('ERR_PROXY_TUNNEL', 'Proxy refused to open a tunnel: 407 No');
    const said = describeProxyFailure('https://a.test', { HTTPS_PROXY: PROXY }, refused);
    expect(said).toMatch(/answered 407: it wants a user and a password/);
  });

  test('but not what is wrong with the certificate of the host', () => {
    const wrong = failed('CERT_HAS_EXPIRED');
    expect(describeProxyFailure('https://a.test', { HTTPS_PROXY: PROXY }, wrong)).toBeUndefined();
  });
});

test('an answer is the proxy’s if it is a failure that no server or store words so', () => {
  const variables = { HTTP_PROXY: PROXY };
  const isOf = (url: string, given: ReturnType<typeof answer>): boolean =>
    describeProxyAnswer(url, variables, given) !== undefined;
  expect(isOf('http://a.test/', answer(502))).toBe(true);
  expect(isOf('http://a.test/', answer(407, ''))).toBe(true);
  expect(isOf('http://a.test/', answer(502, ''))).toBe(true);
  expect(isOf('http://a.test/', answer(200))).toBe(false);
  expect(isOf('http://a.test/', answer(404, ''))).toBe(false);
  expect(isOf('http://a.test/', answer(503, 'application/json'))).toBe(false);
  expect(isOf('http://a.test/', answer(403, 'application/xml'))).toBe(false);
  expect(isOf('https://a.test/', answer(502))).toBe(false);
});

test.each([
  ['DEPTH_ZERO_SELF_SIGNED_CERT', true],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', true],
  ['CERT_HAS_EXPIRED', false],
  ['ERR_TLS_CERT_ALTNAME_INVALID', false],
])('%p is a matter of the certificate', (code, isUntrusted) => {
  expect(findCertificateFailure(failed(code))).toEqual({ code, isUntrusted });
  expect(findCertificateFailure(new TypeError('fetch failed', { cause: failed(code) }))).toBeDefined();
  expect(findCertificateFailure(failed('ECONNRESET'))).toBeUndefined();
});
