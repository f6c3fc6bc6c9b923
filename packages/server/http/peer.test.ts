import { describe, expect, test } from 'bun:test';
import type { Connections } from './peer.ts';
import { peerShareOf, TrustedProxies } from './peer.ts';

const from = (address: string | null): Connections => ({
  timeout: () => undefined,
  requestIP: () => (address === null ? null : { address }),
});

const request = (forwardedFor?: string, proto?: string): Request =>
  new Request('http://h/', {
    headers: {
      ...(forwardedFor !== undefined && { 'x-forwarded-for': forwardedFor }),
      ...(proto !== undefined && { 'x-forwarded-proto': proto }),
    },
  });

describe('the peer', () => {
  const proxies = new TrustedProxies(['10.0.0.0/8', '::1']);

  test.each([
    ['a stranger is not believed', '192.0.2.1', '198.51.100.7', '192.0.2.1'],
    ['a proxy is', '10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['over IPv6 too', '::1', '2001:db8::1', '2001:db8::1'],
    ['an IPv4 proxy on an IPv6 socket is the same', '::ffff:10.1.2.3', '198.51.100.7', '198.51.100.7'],
    ['what the client wrote itself is not', '10.1.2.3', '1.1.1.1, 198.51.100.7', '198.51.100.7'],
    ['a chain of proxies is followed', '10.1.2.3', '198.51.100.7, 10.9.9.9', '198.51.100.7'],
    ['a proxy that asks for itself is the peer', '10.1.2.3', '10.9.9.9', '10.9.9.9'],
    ['nonsense ends the chain', '10.1.2.3', '198.51.100.7, unknown', '10.1.2.3'],
    ['without the header the proxy is the peer', '10.1.2.3', undefined, '10.1.2.3'],
  ])('%s', (_, address, forwardedFor, peer) => {
    expect(proxies.peerOf(request(forwardedFor), from(address))).toBe(peer);
  });

  test('is unknown once its connection is gone', () => {
    expect(proxies.peerOf(request('1.1.1.1'), from(null))).toBeUndefined();
  });
});

test('no peer is believed unless the operator names it', () => {
  expect(new TrustedProxies().peerOf(request('1.1.1.1'), from('192.0.2.1'))).toBe('192.0.2.1');
});

describe('the scheme', () => {
  const proxies = new TrustedProxies(['10.0.0.0/8']);

  test.each([
    ['10.1.2.3', 'https', 'https'],
    ['10.1.2.3', 'HTTPS', 'https'],
    ['10.1.2.3', 'http', 'http'],
    ['10.1.2.3', 'javascript', 'http'],
    ['10.1.2.3', undefined, 'http'],
    ['192.0.2.1', 'https', 'http'],
  ] as const)('%s says %s', (address, told, scheme) => {
    expect(proxies.schemeOf(request(undefined, told), from(address))).toBe(scheme);
    expect(new TrustedProxies().schemeOf(request(undefined, told), from(address))).toBe('http');
  });
});

test.each(['proxy.example', '10.0.0.0/33', '::1/129', '10.0.0.0/8/8', '', '10.0.0.0/', '10.0.0'])(
  '%p is no address of a proxy',
  (range) => expect(() => new TrustedProxies([range])).toThrow(RangeError),
);

test('an IPv6 peer counts as its network', () => {
  expect(peerShareOf('2001:db8:1:2:3:4:5:6')).toBe(peerShareOf('2001:db8:1:2::9'));
  expect(peerShareOf('2001:db8::1')).toBe(peerShareOf('2001:0db8:0:0:ffff::1'));
  expect(peerShareOf('2001:db8:1:3::1')).not.toBe(peerShareOf('2001:db8:1:2::1'));
  expect(peerShareOf('192.0.2.1')).not.toBe(peerShareOf('192.0.2.2'));
});
