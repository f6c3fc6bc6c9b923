import { afterAll, describe, expect, test } from 'bun:test';
import { rmSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { makeTempFolder } from '../../../test/support/temp-folder.ts';
import { ConfigError } from '../errors.ts';
import { parseDeploymentPlace, parseRowsPlace } from './place.ts';

const parse = (text: string) => parseDeploymentPlace('--to', text, {});

describe('a place', () => {
  test('is a folder', () => {
    for (const dataDir of ['/srv/holdfast', './a b', 'C', 'with,comma', '..']) {
      const folder = { kind: 'folder', dataDir } as const;
      expect(parse(dataDir)).toEqual({ rows: folder, bytes: folder });
    }
    expect(parse(' /srv/holdfast\n')).toMatchObject({ rows: { kind: 'folder', dataDir: '/srv/holdfast' } });
    expect(parse('./a,b,s3://bucket')).toMatchObject({
      rows: { dataDir: './a,b' },
      bytes: { kind: 's3', address: { bucket: 'bucket' } },
    });
  });

  test('is a database and a bucket, however they are laid out in a file', () => {
    for (const joint of [',', ', ', ',\n']) {
      const place = parse(`postgres://u:p,w@h:5/d${joint}s3://bucket/a?endpoint=http://h:1&region=r\n`);
      expect(place).toMatchObject({
        rows: {
          kind: 'postgres',
          address: { hosts: [{ host: 'h', port: 5 }], database: 'd', user: 'u', password: 'p,w' },
        },
        bytes: {
          kind: 's3',
          address: { bucket: 'bucket', prefix: 'a/', endpoint: 'http://h:1', region: 'r' },
        },
      });
    }
  });

  test('is refused if it is neither', () => {
    const wrong = ['', ' ', 'postgres://u@h/d', 's3://bucket', 'postgres://u@h/d,s3://a,s3://b'];
    for (const text of wrong) expect(() => parse(text)).toThrow(ConfigError);
  });

  test('is never quoted when it is wrong', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z0-9]{12}$/), fc.string(), (password, rest) => {
        try {
          parse(`postgres://user:${password}@host/d${rest},s3://b`);
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigError);
          expect((error as Error).message).not.toContain(password);
          expect((error as Error).message).toContain('--to');
        }
      }),
    );
  });
});

describe('the file that HOLDFAST_METADATA_FILE names', () => {
  const folder = makeTempFolder('metadata-file');
  afterAll(() => folder.remove());
  const file = `${folder.path}/url`;
  const parse = (env: Record<string, string> = {}) =>
    parseRowsPlace({}, { HOLDFAST_METADATA_FILE: file, ...env });

  test('holds the URL', () => {
    writeFileSync(file, 'postgres://u:hush@h/d\n', { mode: 0o600 });
    expect(parse()).toMatchObject({ kind: 'postgres', address: { password: 'hush', database: 'd' } });
    expect(parseRowsPlace({ data: '/d' }, { HOLDFAST_METADATA_FILE: file })).toMatchObject({
      kind: 'folder',
    });
  });

  test('may be a pipe, which gives the URL once', () => {
    const [pipe, parts] = [`${folder.path}/pipe`, `${folder.path}/parts`];
    Bun.spawnSync(['mkfifo', '-m', '600', pipe]);
    writeFileSync(parts, 'postgres://u:hush@h/piped');
    const writer = Bun.spawn(['sh', '-c', 'cat "$1" > "$2"', 'sh', parts, pipe]);
    for (let time = 0; time < 3; time += 1) {
      expect(parse({ HOLDFAST_METADATA_FILE: pipe })).toMatchObject({ address: { database: 'piped' } });
    }
    writer.kill();
  });

  test('is not read without an end', () => {
    expect(() => parse({ HOLDFAST_METADATA_FILE: '/dev/zero' })).toThrow(/more than 65536 bytes/);
  });

  test('may be a pipe that nobody writes to: it is given up', () => {
    const pipe = `${folder.path}/silent`;
    Bun.spawnSync(['mkfifo', '-m', '600', pipe]);
    expect(() => parse({ HOLDFAST_METADATA_FILE: pipe })).toThrow(/gave nothing/);
  });

  test.each<[string, string | undefined, number, Record<string, string>, RegExp]>([
    ['others can read', 'postgres://u:hush@h/d', 0o644, {}, /others can use.*chmod 600/],
    ['is empty', ' \n', 0o600, {}, /empty/],
    ['is not there', undefined, 0o600, {}, /ENOENT/],
    [
      'stands beside the variable',
      'postgres://u:hush@h/d',
      0o600,
      { HOLDFAST_METADATA: 'postgres://x' },
      /both set/,
    ],
    ['holds something else', 'hush', 0o600, {}, /cannot be understood/],
  ])('is wrong usage if it %s', (_, text, mode, env, message) => {
    rmSync(file, { force: true });
    if (text !== undefined) writeFileSync(file, text, { mode });
    expect(() => parse(env)).toThrow(ConfigError);
    expect(() => parse(env)).toThrow(message);
    expect(() => parse(env)).not.toThrow(/hush/);
  });
});
