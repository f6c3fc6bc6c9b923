import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { ConfigError } from '../errors.ts';
import { formatAuthority, formatDatabase, parseS3Url } from './address.ts';
import { parsePostgresUrl } from './postgres-url.ts';

const SECRET = 'hush-hush-1';

describe('the URL of --metadata', () => {
  test('is split into its parts, decoded', () => {
    expect(parsePostgresUrl('postgres://u%40x:p%2F%3A%40@db.example:6000/holdfast', {})).toEqual({
      hosts: [{ host: 'db.example', port: 6000 }],
      database: 'holdfast',
      user: 'u@x',
      password: 'p/:@',
      tls: 'prefer',
      tlsRootFile: undefined,
      connectionsMax: 16,
      applicationName: 'holdfast',
      passFile: undefined,
      tlsOwn: undefined,
      channelBinding: 'prefer',
      connectMs: undefined,
    });
  });

  test('leaves what it does not name to the variables of PostgreSQL', () => {
    const url = 'postgresql://[::1]/d?sslmode=verify-full&sslrootcert=/etc/ca.pem&connections=40';
    expect(parsePostgresUrl(url, { PGUSER: 'u', PGPASSWORD: 'p' })).toEqual({
      hosts: [{ host: '::1', port: 5432 }],
      database: 'd',
      user: 'u',
      password: 'p',
      tls: 'verify-full',
      tlsRootFile: '/etc/ca.pem',
      connectionsMax: 40,
      applicationName: 'holdfast',
      passFile: undefined,
      tlsOwn: undefined,
      channelBinding: 'prefer',
      connectMs: undefined,
    });
    expect(parsePostgresUrl('postgres://u@h/d', { PGUSER: 'x', PGPASSWORD: '' })).toMatchObject({
      user: 'u',
      password: undefined,
    });
  });

  test.each([
    ['', /cannot be understood/],
    ['h/d', /cannot be understood/],
    [`mysql://u:${SECRET}@h/d`, /cannot be understood/],
    [`postgres://u:${SECRET}#x@h/d`, /percent-encoded/],
    [`postgres://u:${SECRET}%zz@h/d`, /percent-encoded/],
    [`postgres://u:${SECRET}@h`, /no database/],
    [`postgres://u:${SECRET}@h/a/b`, /no database/],
    [`postgres://u:${SECRET}@h1,,h2/d`, /cannot be understood/],
    [`postgres://u:${SECRET}@h1, h2/d`, /cannot be understood/],
    [`postgres://u:${SECRET}@h1,h2:x/d`, /cannot be understood/],
    [`postgres://u:${SECRET}@h1%2Ch2/d`, /no host/],
    [`postgres://u:${SECRET}@${'h,'.repeat(8)}h/d`, /more than 8 hosts/],
    [`postgres://:${SECRET}@h/d`, /no user/],
    [`postgres://u:${SECRET}@h:99999/d`, /cannot be understood/],
    [`postgres://u:${SECRET}@h/d?sslmode=maybe`, /sslmode.*verify-full/],
    [`postgres://u:${SECRET}@h/d?${SECRET}=1`, /unknown.*sslmode/],
    [`postgres://u:${SECRET}@h/d?sslmode=require&sslmode=disable`, /repeated/],
    [`postgres://u:${SECRET}@h/d?sslmod=require`, /parameter sslmod, which is unknown/],
    [`postgres://u:${SECRET}@h/d?sslmode=`, /parameter sslmode, which is empty/],
    [
      `postgres://u:${SECRET}@h/d?application_name=a%0Ab`,
      /parameter application_name, which is not plain text/,
    ],
    [`postgres://u:${SECRET}@h/d?channel_binding=maybe`, /channel_binding.*require/],
    [`postgres://u:${SECRET}@h/d?connect_timeout=${SECRET}`, /connect_timeout.*seconds/],
    [`postgres://u:${SECRET}@h/d?sslcert=/c.pem`, /sslcert without sslkey/],
    [`postgres://u:${SECRET}@h/d?sslkey=/k.pem`, /sslkey without sslcert/],
    [`postgres://u:${SECRET}@/d?host=a&port=x`, /port/],
    [`postgres://u:${SECRET}@/d?host=/a,b%20c`, /no host/],
    [`postgres://u:${SECRET}@h/d?target_session_attrs=standby`, /target_session_attrs/],
    [`postgres://u:${SECRET}@h/d?connections=0`, /connections.*from 1/],
    [`postgres://u:${SECRET}@h/d?connections=501`, /connections.*500/],
  ] as const)('%p is wrong usage', (url, message) => {
    const parse = () => parsePostgresUrl(url, {});
    expect(parse).toThrow(ConfigError);
    expect(parse).toThrow(message);
    expect(parse).not.toThrow(SECRET);
  });
});

describe('the URL of --metadata, as the tools of PostgreSQL understand it,', () => {
  test.each<[string, object]>([
    ['postgres://u@/d?host=/var/run/postgresql', { hosts: [{ host: '/var/run/postgresql', port: 5432 }] }],
    ['postgres://u@%2Fvar%2Frun:6000/d', { hosts: [{ host: '/var/run', port: 6000 }] }],
    [
      'postgres:///?host=/s&port=6000&user=u&dbname=d&password=p%2B+',
      { user: 'u', database: 'd', password: 'p++' },
    ],
    [
      'postgres://u@/d?host=a,b&port=1,2',
      {
        hosts: [
          { host: 'a', port: 1 },
          { host: 'b', port: 2 },
        ],
      },
    ],
    ['postgres://u@h:5/d?host=a', { hosts: [{ host: 'a', port: 5 }] }],
    [
      'postgres://u:p@h:5/d?host=/s&port=6&user=v&password=q&dbname=e',
      { hosts: [{ host: '/s', port: 6 }], user: 'v', password: 'q', database: 'e' },
    ],
    ['postgres://u@h/d?sslmode=verify-ca&sslrootcert=/r.pem', { tls: 'verify-ca', tlsRootFile: '/r.pem' }],
    ['postgres://u@h/d?sslmode=require&sslrootcert=/r.pem', { tls: 'verify-ca' }],
    ['postgres://u@h/d?sslrootcert=system', { tls: 'verify-full', tlsRootFile: undefined }],
    ['postgres://u@h/d?sslmode=allow', { tls: 'prefer' }],
    ['postgres://u@h/d?sslcert=/c&sslkey=/k', { tlsOwn: { certificateFile: '/c', keyFile: '/k' } }],
    ['postgres://u@h/d?channel_binding=require', { channelBinding: 'require' }],
    ['postgres://u@h/d?connect_timeout=10', { connectMs: 10_000 }],
    ['postgres://u@h/d?connect_timeout=1', { connectMs: 2000 }],
    ['postgres://u@h/d?connect_timeout=0', { connectMs: undefined }],
    ['postgres://u@h/d?application_name=my%20app', { applicationName: 'my app' }],
    ['postgres://u@h/d?passfile=/p&target_session_attrs=read-write', { passFile: '/p' }],
  ])('%p', (url, expected) => {
    expect(parsePostgresUrl(url, {})).toMatchObject(expected);
  });

  test('leaves the rest to its variables', () => {
    const env = {
      PGHOST: '/run',
      PGPORT: '7',
      PGDATABASE: 'd',
      PGUSER: 'u',
      PGSSLMODE: 'require',
      PGAPPNAME: 'x',
      HOME: '/home/u',
    };
    expect(parsePostgresUrl('postgres://', env)).toMatchObject({
      ...{
        hosts: [{ host: '/run', port: 7 }],
        database: 'd',
        user: 'u',
        tls: 'require',
        applicationName: 'x',
      },
      passFile: '/home/u/.pgpass',
    });
    expect(parsePostgresUrl('postgres://h/d2', { ...env, PGPASSFILE: '/p' })).toMatchObject({
      database: 'd2',
      passFile: '/p',
    });
  });
});

test('the URL of --metadata names several hosts, each with its port, and one user, password and database for all', () => {
  const url = 'postgres://u:p%2Cw@db1:6000,[::1],10.0.0.3:7000/d?sslmode=disable';
  const address = parsePostgresUrl(url, {});
  expect(address).toMatchObject({ user: 'u', password: 'p,w', database: 'd', tls: 'disable' });
  expect(formatDatabase(address)).toBe('db1:6000,[::1]:5432,10.0.0.3:7000/d');
});

describe('the URL of --content', () => {
  test('has sensible defaults: AWS, by virtual host', () => {
    expect(parseS3Url('s3://bucket', {})).toEqual({
      bucket: 'bucket',
      prefix: '',
      endpoint: undefined,
      publicEndpoint: undefined,
      region: 'us-east-1',
      style: 'virtual',
    });
    expect(parseS3Url('s3://a.bucket', { AWS_REGION: 'eu-west-1' })).toMatchObject({
      region: 'eu-west-1',
      style: 'path',
    });
    expect(parseS3Url('s3://bucket', { AWS_REGION: '', AWS_DEFAULT_REGION: 'eu-north-1' }).region).toBe(
      'eu-north-1',
    );
  });

  test('describes a store other than AWS completely', () => {
    const url = 's3://Bucket_1/a/b.c/?endpoint=http://127.0.0.1:7480&public-endpoint=https://s3.example/';
    expect(parseS3Url(url, { AWS_REGION: 'x' })).toEqual({
      bucket: 'Bucket_1',
      prefix: 'a/b.c/',
      endpoint: 'http://127.0.0.1:7480',
      publicEndpoint: 'https://s3.example',
      region: 'x',
      style: 'path',
    });
    expect(parseS3Url('s3://bucket/?endpoint=http://h&style=virtual&region=r', {})).toMatchObject({
      style: 'virtual',
      region: 'r',
    });
  });

  test.each([
    ['bucket', /cannot be understood/],
    ['http://bucket', /cannot be understood/],
    [`s3://key:${SECRET}@bucket`, /AWS_ACCESS_KEY_ID/],
    ['s3:///prefix', /names no bucket/],
    ['s3://b', /a bucket that cannot be/],
    ['s3://bucket-', /a bucket that cannot be/],
    ['s3://bucket:80', /a bucket that cannot be/],
    [`s3://bucket?secret=${SECRET}`, /unknown/],
    [`s3://bucket?endpoint=http://u:${SECRET}@h`, /endpoint.*plain/],
    ['s3://bucket?endpoint=http://h/path', /endpoint.*plain/],
    ['s3://bucket?endpoint=ftp://h', /endpoint.*plain/],
    ['s3://bucket?public-endpoint=h', /public-endpoint.*plain/],
    ['s3://bucket?endpoint=http://h&endpoint=http://i', /repeated/],
    ['s3://bucket?region=', /empty/],
    ['s3://bucket?region=a/b', /region/],
    ['s3://bucket?style=both', /style.*path, virtual/],
    ['s3://bucket/a//b', /prefix/],
    ['s3://bucket/a%20b', /prefix/],
    ['s3://bucket/.../b', /prefix/],
    [`s3://bucket/${'a'.repeat(257)}`, /prefix/],
    ['s3://bucket#x', /cannot be understood/],
  ] as const)('%p is wrong usage', (url, message) => {
    const parse = () => parseS3Url(url, {});
    expect(parse).toThrow(ConfigError);
    expect(parse).toThrow(message);
    expect(parse).not.toThrow(SECRET);
  });
});

test('any text is understood or refused in one line that does not quote it', () => {
  const part = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 12 }),
    fc.constantFrom('%', '@', ':', '/', '?', ',', '[', ']'),
  );
  const text = fc
    .tuple(fc.constantFrom('', 'postgres://', 's3://', 's3://bucket?endpoint='), fc.array(part))
    .map(([start, parts]) => `${start}${SECRET}${parts.join('')}`);
  fc.assert(
    fc.property(text, (url) => {
      for (const parse of [parsePostgresUrl, parseS3Url]) {
        try {
          const parsed = parse(url, {});
          expect(JSON.stringify(parsed)).not.toMatch(/\\u0000|\\n/);
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          expect((error as Error).message).not.toContain('\n');
          expect((error as Error).message).not.toContain(SECRET);
        }
      }
    }),
  );
});

test('a PostgreSQL URL gives back the parts it was made of', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1 }).filter((each) => !/\p{Cc}/u.test(each));
  const name = text.filter((each) => !each.includes('/') && each.isWellFormed());
  // As a URL writes it: an address of version 6 has one shortest form.
  const ipV6 = fc.ipV6().filter((each) => URL.canParse(`http://[${each}]`));
  const shortest = ipV6.map((each) => new URL(`http://[${each}]`).hostname.slice(1, -1));
  const host = fc.record({
    host: fc.oneof(fc.domain(), fc.ipV4(), shortest),
    port: fc.integer({ min: 1, max: 65_535 }),
  });
  const hosts = fc.array(host, { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(name, name, name, hosts, (user, password, database, given) => {
      const [u, p, d] = [user, password, database].map(encodeURIComponent);
      // A path of dots is no name a URL can carry.
      fc.pre(!/^\.{1,2}$/.test(database));
      const list = given.map((each) => formatAuthority(each.host, each.port)).join(',');
      const parsed = parsePostgresUrl(`postgres://${u}:${p}@${list}/${d}`, {});
      expect(parsed).toMatchObject({ user, password, database, hosts: given });
      expect(formatDatabase(parsed)).toBe(`${list}/${database}`);
    }),
  );
});
