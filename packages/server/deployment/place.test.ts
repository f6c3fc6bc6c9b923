import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { ConfigError } from '../errors.ts';
import { parseDeploymentPlace } from './place.ts';

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
