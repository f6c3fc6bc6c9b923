/** Which addresses key sets are fetched from, and compressed responses (docs/operations.md, Apps and keys). */

import { afterEach, describe, expect, test } from 'bun:test';
import { MIB_BYTES } from '@holdfast/protocol';
import { makeAuthority } from '../../../test/support/certificates.ts';
import { startBombServer } from '../../../test/support/packed-bomb.ts';
import { JWKS_ADDRESSES_MAX } from './auth-limits.ts';
import { type AuthWorld, REAL_AUTH_WORLD } from './auth-world.ts';
import { fetchKeySetBytes } from './jwks-source.ts';
import { FakeWorld } from './test/fake-world-fixture.ts';

const GIB = 1024 ** 3;

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

type Answer = (request: Request) => Response | Promise<Response>;

function serve(answer: Answer, tls?: { cert: string; key: string }): number {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer, ...(tls && { tls }) });
  closers.push(() => void server.stop(true));
  return server.port as number;
}

/** A real network in which every name resolves to these addresses. */
function at(...addresses: string[]): AuthWorld {
  return { ...REAL_AUTH_WORLD, resolve: async () => addresses };
}

async function textOf(url: string, world: AuthWorld): Promise<string> {
  return Buffer.from(await fetchKeySetBytes(url, world)).toString();
}

describe('an address that is link-local, or of a metadata service,', () => {
  const refused = [
    '169.254.169.254',
    '169.254.0.1',
    'fe80::1',
    'fe80::1%eth0',
    'febf::1',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '64:ff9b::a9fe:a9fe',
    '2002:a9fe:a9fe::1',
    'fd00:ec2::254',
    'fd00:42::42',
    '168.63.129.16',
    '100.100.100.200',
    '192.0.0.192',
    '::ffff:168.63.129.16',
    '64:ff9b::100.100.100.200',
    '64:ff9b:1::6464:64c8',
    '::ffff:0:192.0.0.192',
    '2002:c000:c0::1',
    'fd00:c1::a9fe:a9fe',
  ];

  test.each(refused)('is not asked where a name resolves to it: %s', async (address) => {
    const world = new FakeWorld();
    world.answer = async () => new Response('keys');
    world.resolve = async () => ['192.0.2.1', address];
    await expect(textOf('https://issuer.test/jwks.json', world)).rejects.toThrow('link-local or metadata');
    expect(world.fetchCount).toBe(0);
  });

  test.each([
    'http://169.254.169.254/latest',
    'http://2852039166/latest',
    'http://0xa9.0376.43518/latest',
    'http://169.254.169.254./latest',
    'http://[::ffff:169.254.169.254]/latest',
    'https://[fe80::1]/latest',
  ])('is not asked where the URL names it: %s', async (url) => {
    const world = new FakeWorld();
    world.answer = async () => new Response('keys');
    await expect(textOf(url, world)).rejects.toThrow('link-local or metadata');
    expect(world.fetchCount).toBe(0);
  });

  test.each([
    '168.63.129.17',
    '100.100.100.199',
    '2002:c000:c1::1',
    '127.0.0.1',
    '::1',
    '169.253.255.255',
    'fec0::1',
    '::ffff:127.0.0.1',
    '10.0.0.1',
  ])('is not this one: %s', async (address) => {
    const world = new FakeWorld();
    world.answer = async () => new Response('keys');
    world.resolve = async () => [address];
    expect(await textOf('https://issuer.test/jwks.json', world)).toBe('keys');
  });
});

describe('the host of the URL', () => {
  test('is connected to at the address that was checked, however the name resolves afterwards', async () => {
    const port = serve((request) => new Response(request.headers.get('host')));
    // No resolver has this name, so a second lookup would fail.
    expect(await textOf(`http://issuer.invalid:${port}/jwks.json`, at('127.0.0.1'))).toBe(
      `issuer.invalid:${port}`,
    );
  });

  test('is tried at its further addresses, so many and no more', async () => {
    const world = new FakeWorld();
    const asked: string[] = [];
    world.resolve = async () => Array.from({ length: 10 }, (_, index) => `192.0.2.${index}`);
    world.answer = async (url) => {
      asked.push(new URL(url).hostname);
      if (asked.length === 3) return new Response('keys');
      throw new Error('nobody listens there');
    };
    expect(await textOf('http://issuer.test/jwks.json', world)).toBe('keys');
    expect(asked).toEqual(['192.0.2.0', '192.0.2.1', '192.0.2.2']);
    asked.push('so that none answers');
    await expect(textOf('http://issuer.test/jwks.json', world)).rejects.toThrow('nobody listens there');
    expect(asked.length).toBe(4 + JWKS_ADDRESSES_MAX);
  });

  test('must own the certificate, also where another host at that address was asked before', async () => {
    const authority = makeAuthority('an authority of a test');
    const { certificate, key } = authority.issue(['one.test'], []);
    const port = serve(() => new Response('keys'), { cert: certificate, key });
    const world: AuthWorld = {
      ...at('127.0.0.1'),
      fetch: (url, init) =>
        fetch(url, { ...init, tls: { ...init.tls, ca: authority.certificate } } as BunFetchRequestInit),
    };
    for (let round = 0; round < 3; round += 1) {
      expect(await textOf(`https://one.test:${port}/jwks.json`, world)).toBe('keys');
      await expect(textOf(`https://two.test:${port}/jwks.json`, world)).rejects.toThrow('ALTNAME');
    }
  });
});

describe('an answer with a Content-Encoding', () => {
  test.each(['br', 'gzip', 'deflate', 'zstd', 'GZIP', 'identity, br', 'unheard-of'])(
    'is refused: %s',
    async (encoding) => {
      const headers = { 'content-encoding': encoding };
      const port = serve(() => new Response('{"keys":[]}', { headers }));
      await expect(textOf(`http://127.0.0.1:${port}/`, REAL_AUTH_WORLD)).rejects.toThrow('Content-Encoding');
    },
  );

  test('of identity is none', async () => {
    const port = serve(() => new Response('keys', { headers: { 'content-encoding': 'identity' } }));
    expect(await textOf(`http://127.0.0.1:${port}/`, REAL_AUTH_WORLD)).toBe('keys');
  });

  test('is not asked for', async () => {
    const port = serve((request) => new Response(request.headers.get('accept-encoding')));
    expect(await textOf(`http://127.0.0.1:${port}/`, REAL_AUTH_WORLD)).toBe('identity');
  });

  test('is not unpacked: 4 GiB in a few KiB take no memory', async () => {
    const hostile = await startBombServer(4 * GIB);
    closers.push(hostile.stop);
    const before = process.memoryUsage.rss();
    for (let round = 0; round < 3; round += 1) {
      await expect(textOf(hostile.url, REAL_AUTH_WORLD)).rejects.toThrow('Content-Encoding');
      await Bun.sleep(100);
      expect(process.memoryUsage.rss() - before).toBeLessThan(64 * MIB_BYTES);
    }
    expect(hostile.count()).toBe(3);
  });
});
