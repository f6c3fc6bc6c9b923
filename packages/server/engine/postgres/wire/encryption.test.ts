/** TLS to a real PostgreSQL that speaks it, and to one that does not: whom each `sslmode` lets us talk to, and that all works over it. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeAuthority } from '../../../../../test/support/certificates.ts';
import { type PostgresServer, startPostgres } from '../../../../../test/support/postgres-server.ts';
import { startTcpProxy, type TcpProxy } from '../../../../../test/support/tcp-proxy.ts';
import { makeTempFolder } from '../../../../../test/support/temp-folder.ts';
import { StoreUnavailable } from '../../../core/store-failure.ts';
import { EngineRefused } from '../../refused.ts';
import { hashAt, insertNodes, readyNode, SPACE } from '../../test/samples.ts';
import { openPostgres } from '../open-postgres.ts';
import { addressOf, openInstance } from '../test/postgres-fixture.ts';
import { startTlsMiddle } from '../test/tls-middle-fixture.ts';
import type { PostgresPool } from './connection-pool.ts';

const START_MS_MAX = 300_000;
/** The certificate names the first. */
const [HOST, OTHER_HOST] = ['127.0.0.1', '127.0.0.2'];
const BIG_LENGTH = 8 * 1024 * 1024;

const folder = makeTempFolder('tls');
const authority = makeAuthority('the authority of this test');
const [own, other] = [join(folder.path, 'own.pem'), join(folder.path, 'other.pem')];
let server: PostgresServer;
let plain: PostgresServer;
let proxy: TcpProxy;

beforeAll(async () => {
  writeFileSync(own, authority.certificate);
  writeFileSync(other, makeAuthority('an authority that nobody asked').certificate);
  [server, plain] = await Promise.all([
    startPostgres({
      durable: false,
      certificate: authority.issue(['localhost'], [HOST]),
      settings: { listen_addresses: `${HOST},${OTHER_HOST}` },
    }),
    startPostgres({ durable: false }),
  ]);
  proxy = await startTcpProxy({ port: server.port });
}, 2 * START_MS_MAX);
afterAll(async () => {
  await proxy.close();
  await Promise.all([server.stop(), plain.stop()]);
  folder.remove();
});

/** The URL an operator would give. */
async function urlOf(
  { createDatabase }: PostgresServer,
  parameters: Readonly<Record<string, string>>,
  at: { readonly host?: string; readonly port?: number } = {},
): Promise<string> {
  const url = new URL(await createDatabase());
  if (at.host !== undefined) url.hostname = at.host;
  if (at.port !== undefined) url.port = String(at.port);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

async function withPool<T>(url: string, work: (pool: PostgresPool) => Promise<T>): Promise<T> {
  const pool = await openPostgres(addressOf(url, { connectionsMax: 1 }));
  try {
    return await work(pool);
  } finally {
    await pool.close();
  }
}

/** Whether the server reports the connection as encrypted. */
const isEncrypted = (pool: PostgresPool): Promise<unknown> =>
  pool
    .read('looking', 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()', [])
    .then(({ rows }) => rows[0]?.ssl);

const failureOf = (url: string): Promise<unknown> =>
  withPool(url, isEncrypted).then(
    () => undefined,
    (error) => error,
  );

describe('a server that speaks TLS', () => {
  test.each<[Record<string, string>, boolean]>([
    [{ sslmode: 'disable' }, false],
    [{}, true],
    [{ sslmode: 'prefer' }, true],
    [{ sslmode: 'require' }, true],
  ])('with %p is trusted whoever it is', async (parameters, expected) => {
    expect(await withPool(await urlOf(server, parameters, { host: OTHER_HOST }), isEncrypted)).toBe(expected);
  });

  test.each([HOST, 'localhost'])('is known by the name it has in its certificate: %s', async (host) => {
    const url = await urlOf(server, { sslmode: 'verify-full', sslrootcert: own }, { host });
    expect(await withPool(url, isEncrypted)).toBe(true);
  });

  test.each<[string, string, Record<string, string>, string]>([
    ['of another name', OTHER_HOST, { sslrootcert: own }, 'of another host'],
    ['of another authority', HOST, { sslrootcert: other }, 'sslrootcert'],
    ['of an authority that only we know', HOST, {}, 'sslrootcert'],
  ])('is refused by verify-full when it is %s', async (_, host, parameters, hint) => {
    const failure = await failureOf(await urlOf(server, { sslmode: 'verify-full', ...parameters }, { host }));
    expect(failure).toBeInstanceOf(StoreUnavailable);
    expect((failure as Error).message).toContain(hint);
  });

  test.each([
    ['is not there', '/nowhere.pem'],
    ['is a folder', folder.path],
    ['holds no certificate', import.meta.path],
  ])('is given up at once by verify-full when the file of its authority %s', async (_, sslrootcert) => {
    const failure = await failureOf(await urlOf(server, { sslmode: 'verify-full', sslrootcert }));
    expect(failure).toBeInstanceOf(EngineRefused);
    expect((failure as Error).message).toContain('sslrootcert');
  });
});

describe('the authority alone', () => {
  const at = { host: OTHER_HOST };

  test.each(['verify-ca', 'require'])(
    'is asked by %s with sslrootcert, whatever name the certificate has',
    async (sslmode) => {
      expect(await withPool(await urlOf(server, { sslmode, sslrootcert: own }, at), isEncrypted)).toBe(true);
      const failure = await failureOf(await urlOf(server, { sslmode, sslrootcert: other }, at));
      expect((failure as Error).message).toContain('sslrootcert');
    },
  );
});

describe('the proof of the password', () => {
  test.each(['disable', 'prefer', 'require'])(
    'is bound to the certificate as channel_binding=%s says',
    async (channel_binding) => {
      expect(await withPool(await urlOf(server, { channel_binding }), isEncrypted)).toBe(true);
    },
  );

  test('is not given to a server that cannot bind it where it must be bound', async () => {
    const failure = await failureOf(await urlOf(server, { channel_binding: 'require', sslmode: 'disable' }));
    expect(failure).toBeInstanceOf(EngineRefused);
    expect((failure as Error).message).toContain('channel_binding=require');
  });

  test('is not taken for a proof to another certificate', async () => {
    const stranger = makeAuthority('one in the middle').issue(['localhost'], [HOST]);
    const middle = await startTlsMiddle(stranger, server.port);
    const bound = await failureOf(await urlOf(server, { channel_binding: 'require' }, { port: middle.port }));
    expect(bound).toBeInstanceOf(Error);
    expect(
      await withPool(await urlOf(server, { channel_binding: 'disable' }, { port: middle.port }), isEncrypted),
    ).toBe(true);
    middle.close();
  });
});

describe('our own certificate', () => {
  const [certificateFile, keyFile] = [join(folder.path, 'client.pem'), join(folder.path, 'client.key')];
  const ours = { sslcert: certificateFile, sslkey: keyFile };

  test('is shown with sslcert and sslkey; a key that others can read is refused', async () => {
    const { certificate, key } = authority.issue(['holdfast'], []);
    writeFileSync(certificateFile, certificate);
    writeFileSync(keyFile, key, { mode: 0o600 });
    // Another user runs the server.
    chmodSync(folder.path, 0o755);
    const trusting = await startPostgres({
      durable: false,
      certificate: authority.issue(['localhost'], [HOST]),
      settings: { ssl_ca_file: own },
    });
    const shown = (pool: PostgresPool) =>
      pool.read('looking', 'SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()', []);
    const { rows } = await withPool(await urlOf(trusting, ours), shown);
    expect(rows).toEqual([{ client_dn: '/CN=a server of a test' }]);
    await trusting.stop();
    for (const [certificate, hint] of [
      [authority.issue(['another'], []).certificate, /sslkey is not that of the certificate of sslcert/],
      ['', /sslcert must name a certificate/],
    ] as const) {
      writeFileSync(certificateFile, certificate);
      const failure = await failureOf(await urlOf(server, ours));
      expect(failure).toBeInstanceOf(EngineRefused);
      expect((failure as Error).message).toMatch(hint);
    }
    chmodSync(keyFile, 0o644);
    const failure = await failureOf(await urlOf(server, ours));
    expect(failure).toBeInstanceOf(EngineRefused);
    expect((failure as Error).message).toMatch(/sslkey.*others.*chmod 600/);
  });
});

test('a password comes from a password file, of the first line that fits', async () => {
  const passfile = join(folder.path, 'pgpass');
  const url = new URL(await urlOf(plain, { passfile }));
  const { password, port, pathname, username } = url;
  url.password = '';
  const lines = [
    '# a comment',
    `${HOST}:1:*:*:wrong`,
    `*:${port}:${pathname.slice(1)}:${username}:${password}`,
    '*:*:*:*:wrong',
  ];
  writeFileSync(passfile, lines.join('\n'), { mode: 0o600 });
  expect(await withPool(url.href, isEncrypted)).toBe(false);
  chmodSync(passfile, 0o640);
  for (const [mode, hint] of [
    [0o640, /others can use it.*chmod 600/],
    [0o600, /PGPASSFILE/],
  ] as const) {
    chmodSync(passfile, mode);
    const failure = (await failureOf(url.href)) as Error;
    expect(failure).toBeInstanceOf(EngineRefused);
    expect(failure.message).toMatch(hint);
    expect(failure.message).not.toContain(password);
    writeFileSync(passfile, '');
  }
  rmSync(passfile);
  // The pipe has no writer.
  Bun.spawnSync(['mkfifo', '-m', '600', passfile]);
  expect(String(await failureOf(url.href))).toMatch(/is no file/);
});

test('a socket of this machine is reached by its folder', async () => {
  const sockets = makeTempFolder('s');
  chmodSync(sockets.path, 0o777);
  const local = await startPostgres({ durable: false, settings: { unix_socket_directories: sockets.path } });
  const url = await urlOf(local, {});
  const address = addressOf(url);
  const { password, pathname, port } = new URL(url);
  const named = `postgres://${address.user}:${password}@/${pathname.slice(1)}?sslmode=require&port=${port}&host=${sockets.path}`;
  const inPlace = `postgres://${address.user}:${password}@${encodeURIComponent(sockets.path)}:${port}${pathname}`;
  for (const each of [named, inPlace]) {
    const { rows } = await withPool(each, (pool) =>
      pool.read('looking', 'SELECT inet_server_addr() IS NULL AS "isLocal"', []),
    );
    expect(rows).toEqual([{ isLocal: true }]);
  }
  await local.stop();
  sockets.remove();
});

describe('a server that does not speak TLS', () => {
  test.each(['require', 'verify-full'])('is refused by %s', async (sslmode) => {
    const failure = await failureOf(await urlOf(plain, { sslmode, sslrootcert: own }));
    expect(failure).toBeInstanceOf(StoreUnavailable);
    expect((failure as Error).message).toContain('speaks TLS');
  });

  test.each(['disable', 'prefer'])('is used without TLS by %s', async (sslmode) => {
    expect(await withPool(await urlOf(plain, { sslmode }), isEncrypted)).toBe(false);
  });
});

describe('over TLS', () => {
  const open = async () =>
    openInstance(await urlOf(server, { sslmode: 'verify-full', sslrootcert: own }, { port: proxy.port }), {
      connectionsMax: 4,
    });

  test('rows arrive as they do without TLS, even the largest, and many at once', async () => {
    const instance = await open();
    await insertNodes(
      instance.store,
      SPACE,
      Array.from({ length: 100 }, (_, index) => readyNode(hashAt(index))),
    );
    const found = await Promise.all(
      Array.from({ length: 100 }, (_, index) => instance.store.findNode(SPACE, hashAt(index))),
    );
    expect(found.map((node) => node?.hash)).toEqual(found.map((_, index) => hashAt(index)));
    const big = Buffer.from(crypto.getRandomValues(new Uint8Array(65_536))).toString('hex');
    const text = big.repeat(BIG_LENGTH / big.length);
    const { rows } = await instance.pool.read('echoing', 'SELECT $1::text AS text', [text]);
    expect(rows[0]?.text === text).toBe(true);
    await instance.close();
  });

  test('a connection lost in the middle of an answer is an error of that request, never an answer', async () => {
    const instance = await open();
    await insertNodes(instance.store, SPACE, [readyNode(hashAt(1))]);
    for (const afterBytes of [0, 1, 20_000, BIG_LENGTH / 2]) {
      proxy.setMode({ kind: 'cut', afterBytes });
      const cut = instance.pool.run('answering', "SELECT repeat('x', $1) AS text", [BIG_LENGTH]);
      await expect(cut).rejects.toBeInstanceOf(StoreUnavailable);
      proxy.setMode({ kind: 'pass' });
      expect((await instance.store.findNode(SPACE, hashAt(1)))?.hash).toBe(hashAt(1));
    }
    await instance.close();
  });
});
