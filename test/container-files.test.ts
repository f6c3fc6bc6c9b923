/**
 * The build files say which files are inside container images and which are kept out. No container engine runs here, so the
 * test reads the build files.
 */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dir, '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

test('base images are named by digest: a tag may point elsewhere tomorrow', () => {
  const bases = ['Dockerfile', 'deploy/ceph/Dockerfile', 'compose.yaml'].flatMap((path) => [
    ...read(path).matchAll(/^(?:FROM|\s+image:) +(\S+)/gm),
  ]);
  expect(bases.length).toBeGreaterThan(4);
  for (const [, base] of bases) expect(base).toMatch(/^[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}$/);
});

test('keys, tokens and data of a working folder stay out of the build', () => {
  const rules = read('.dockerignore')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((rule) => new Bun.Glob(rule.startsWith('**/') ? `{${rule},${rule.slice(3)}}` : rule));
  const isLeftOut = (path: string): boolean =>
    path
      .split('/')
      .some((_, index, parts) => rules.some((rule) => rule.match(parts.slice(0, index + 1).join('/'))));
  const secrets = [
    'demo.jwk',
    'keys/private.jwk',
    'secret.key',
    'server.pem',
    '.env',
    '.env.production',
    'operator.token',
    'my-token.txt',
    'holdfast-data/dev-key.jwk',
    'backup/holdfast.db',
    'backup/holdfast.db-wal',
    '.git/config',
  ];
  for (const path of secrets) expect([path, isLeftOut(path)]).toEqual([path, true]);
  for (const path of ['package.json', 'bin/holdfast', 'packages/client/token-source.ts']) {
    expect([path, isLeftOut(path)]).toEqual([path, false]);
  }
});
