import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { formatAuthority } from '../engine/address.ts';
import { ConfigError } from '../errors.ts';
import { parseServeConfig, type ServeFlags } from './config.ts';

const FOLDER = { kind: 'folder', dataDir: './holdfast-data' } as const;

describe('serve configuration', () => {
  test('defaults', () => {
    expect(parseServeConfig({}, {})).toEqual({
      host: '127.0.0.1',
      port: 8420,
      dataDir: './holdfast-data',
      place: { rows: FOLDER, bytes: FOLDER },
      isForeignOwnerAllowed: false,
      publicUrl: undefined,
      nodeBytesMax: 67_108_864,
      activeUploadsMax: 1024,
      uploadTtlMs: 300_000,
      idleSeconds: 55,
      workers: 1,
      minFreeBytes: undefined,
      trustedProxies: [],
      isDev: false,
      gcEveryMs: undefined,
      keepReplacedMs: 0,
      commitRecordsKeptMs: undefined,
      clockSkewMsMax: 120_000,
      operators: undefined,
      audit: undefined,
      corsOrigins: '*',
      logLevel: 'info',
    });
  });

  test('every flag has a variable, and wins over it', () => {
    const variables = {
      HOLDFAST_LISTEN: '0.0.0.0:1',
      HOLDFAST_DATA: '/env',
      HOLDFAST_PUBLIC_URL: 'https://env.example',
      HOLDFAST_MAX_NODE_BYTES: '5000',
      HOLDFAST_MAX_ACTIVE_UPLOADS: '5',
      HOLDFAST_UPLOAD_TTL: '5s',
      HOLDFAST_GC_EVERY: '5d',
      HOLDFAST_KEEP_REPLACED: '2h',
      HOLDFAST_COMMIT_RECORDS_KEPT: '30d',
      HOLDFAST_MAX_CLOCK_SKEW: '5m',
      HOLDFAST_OPERATOR_LISTEN: '127.0.0.1:5',
      HOLDFAST_WORKERS: '5',
      HOLDFAST_MIN_FREE: '5GiB',
      HOLDFAST_TRUSTED_PROXY: '10.0.0.5, 10.1.0.0/16',
      HOLDFAST_CORS_ORIGINS: 'https://a.example, https://b.example:8443',
      HOLDFAST_LOG_LEVEL: 'debug',
      HOLDFAST_ALLOW_FOREIGN_OWNER: '1',
    };
    expect(parseServeConfig({}, variables)).toMatchObject({
      host: '0.0.0.0',
      port: 1,
      dataDir: '/env',
      publicUrl: 'https://env.example',
      nodeBytesMax: 5000,
      activeUploadsMax: 5,
      uploadTtlMs: 5000,
      gcEveryMs: 432_000_000,
      keepReplacedMs: 7_200_000,
      commitRecordsKeptMs: 2_592_000_000,
      clockSkewMsMax: 300_000,
      operators: { host: '127.0.0.1', port: 5, mayMove: false, tokenFile: undefined },
      workers: 5,
      minFreeBytes: 5 * 1024 ** 3,
      trustedProxies: ['10.0.0.5', '10.1.0.0/16'],
      corsOrigins: ['https://a.example', 'https://b.example:8443'],
      logLevel: 'debug',
      isForeignOwnerAllowed: true,
    });
    const flags: ServeFlags = {
      listen: '[::1]:0',
      data: '/flag',
      publicUrl: 'http://flag.example/base//',
      maxNodeBytes: '6000',
      maxActiveUploads: '6',
      uploadTtl: '6m',
      gcEvery: '1h',
      keepReplaced: '0s',
      commitRecordsKept: '7d',
      maxClockSkew: '6s',
      operatorListen: '0.0.0.0:6',
      operatorTokenFile: '/token',
      workers: '6',
      minFree: '0',
      trustedProxy: '::1/128',
      dev: true,
    };
    expect(parseServeConfig(flags, variables)).toMatchObject({
      host: '::1',
      port: 0,
      dataDir: '/flag',
      publicUrl: 'http://flag.example/base',
      nodeBytesMax: 6000,
      activeUploadsMax: 6,
      uploadTtlMs: 360_000,
      workers: 6,
      minFreeBytes: 0,
      trustedProxies: ['::1/128'],
      isDev: true,
      gcEveryMs: 3_600_000,
      keepReplacedMs: 0,
      commitRecordsKeptMs: 604_800_000,
      clockSkewMsMax: 6000,
      operators: { host: '0.0.0.0', port: 6, mayMove: false, tokenFile: '/token' },
    });
    expect(parseServeConfig({}, { HOLDFAST_LISTEN: '' }).port).toBe(8420);
  });

  test.each<[ServeFlags, RegExp]>([
    [{ listen: '8420' }, /--listen/],
    [{ minFree: '-1' }, /--min-free/],
    [{ minFree: 'much' }, /--min-free/],
    [{ trustedProxy: 'proxy.example' }, /--trusted-proxy/],
    [{ trustedProxy: '10.0.0.0/33' }, /--trusted-proxy/],
    [{ trustedProxy: '10.0.0.1,' }, /--trusted-proxy/],
    [{ listen: 'localhost' }, /--listen/],
    [{ listen: '::1:8420' }, /--listen/],
    [{ listen: '127.0.0.1:65536' }, /--listen/],
    [{ listen: '127.0.0.1:-1' }, /--listen/],
    [{ publicUrl: 'cas.example' }, /--public-url/],
    [{ publicUrl: 'ftp://cas.example' }, /--public-url/],
    [{ publicUrl: 'https://user:hush@cas.example' }, /--public-url/],
    [{ publicUrl: 'https://cas.example/?a=1' }, /--public-url/],
    [{ maxNodeBytes: '32 MiB' }, /--max-node-bytes "32 MiB" must be a size from/],
    [{ maxNodeBytes: '1TiB' }, /--max-node-bytes/],
    [{ maxNodeBytes: '10' }, /--max-node-bytes/],
    [{ maxActiveUploads: '0' }, /--max-active-uploads/],
    [{ uploadTtl: '5' }, /--upload-ttl/],
    [{ uploadTtl: '0s' }, /--upload-ttl/],
    [{ uploadTtl: '8d' }, /--upload-ttl/],
    [{ gcEvery: '0s' }, /--gc-every/],
    [{ keepReplaced: '0' }, /--keep-replaced "0" must be a duration from 0s/],
    [{ commitRecordsKept: '6d' }, /--commit-records-kept "6d" must be a duration from 7d/],
    [{ idleTimeout: '4s' }, /--idle-timeout "4s" must be a duration from 5s/],
    [{ maxClockSkew: '1s' }, /--max-clock-skew "1s" must be a duration from 5s/],
    [{ operatorListen: '0.0.0.0:8421' }, /--operator-token-file FILE/],
    [{ operatorListen: 'localhost.example:1' }, /other machines/],
    [{ operatorTokenFile: '/token' }, /needs --operator-listen/],
    [{ workers: '0' }, /--workers/],
    [{ workers: '1.5' }, /--workers/],
  ])('%p is wrong usage', (flags, message) => {
    const parse = () => parseServeConfig(flags, {});
    expect(parse).toThrow(ConfigError);
    expect(parse).toThrow(message);
    expect(parse).not.toThrow(/hush/);
  });

  test('wrong variables are wrong usage too', () => {
    expect(() => parseServeConfig({}, { HOLDFAST_LOG_LEVEL: 'loud' })).toThrow(/HOLDFAST_LOG_LEVEL.*info/);
    expect(() => parseServeConfig({}, { HOLDFAST_CORS_ORIGINS: 'https://a.example/' })).toThrow(/CORS/);
  });

  test('engines are chosen by their URLs, flags before variables', () => {
    const metadata = 'postgres://u:hush@h/db';
    const content = 's3://bucket?endpoint=http://h:1';
    expect(parseServeConfig({ metadata, content }, {}).place).toMatchObject({
      rows: { kind: 'postgres', address: { hosts: [{ host: 'h' }], password: 'hush' } },
      bytes: { kind: 's3', address: { bucket: 'bucket', endpoint: 'http://h:1' } },
    });
    const variables = { HOLDFAST_METADATA: metadata, HOLDFAST_CONTENT: content };
    expect(parseServeConfig({ content: 's3://other' }, variables).place).toMatchObject({
      rows: { kind: 'postgres' },
      bytes: { address: { bucket: 'other' } },
    });
    expect(parseServeConfig({ content }, {}).place).toMatchObject({
      rows: FOLDER,
      bytes: { kind: 's3', address: { bucket: 'bucket' } },
    });
  });

  test('rows in PostgreSQL with bytes in a folder are refused, and why', () => {
    const parse = () => parseServeConfig({ metadata: 'postgres://u:hush@h/db' }, {});
    expect(parse).toThrow(ConfigError);
    expect(parse).toThrow(/--content.*cannot share bytes in one folder/);
    expect(parse).not.toThrow(/hush/);
  });

  test('a connection rests as long as is said, by default less than a head may take', () => {
    expect(parseServeConfig({}, {}).idleSeconds).toBeLessThan(60);
    expect(parseServeConfig({ idleTimeout: '2m' }, {}).idleSeconds).toBe(120);
    expect(parseServeConfig({}, { HOLDFAST_IDLE_TIMEOUT: '5s' }).idleSeconds).toBe(5);
  });

  test('a size may have a unit', () => {
    expect(parseServeConfig({ maxNodeBytes: '32MiB' }, {}).nodeBytesMax).toBe(33_554_432);
    expect(parseServeConfig({}, { HOLDFAST_MAX_NODE_BYTES: '5MB' }).nodeBytesMax).toBe(5_000_000);
  });

  test('any text for any flag is understood or refused in one line', () => {
    const text = fc.option(fc.string({ unit: 'grapheme' }), { nil: undefined });
    const flags = fc.record({
      listen: text,
      publicUrl: text,
      maxNodeBytes: text,
      uploadTtl: text,
      workers: text,
    });
    fc.assert(
      fc.property(flags, (given) => {
        try {
          const { host, port } = parseServeConfig(given, {});
          expect(new URL(`http://${formatAuthority(host, port)}`).pathname).toBe('/');
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          expect((error as Error).message).not.toContain('\n');
        }
      }),
    );
  });
});
