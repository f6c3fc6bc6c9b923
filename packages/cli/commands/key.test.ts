/** `holdfast key new` as a process. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { ALGORITHMS } from '@holdfast/protocol';
import { Workplace } from '../test/run-holdfast-fixture.ts';

let place: Workplace;
beforeEach(() => {
  place = new Workplace();
});
afterEach(() => place.remove());

const NEW = ['key', 'new', '--out', 'private.jwk', '--jwks', 'public.json'];

function readJson(name: string): Record<string, unknown> {
  return JSON.parse(readFileSync(place.path(name), 'utf8')) as Record<string, unknown>;
}

test.each([...ALGORITHMS])('makes a %s pair that app add accepts', async (alg) => {
  const printed = await place.print(...NEW, '--alg', alg);
  const privateJwk = readJson('private.jwk');
  const { keys } = readJson('public.json') as { keys: Record<string, unknown>[] };
  expect(privateJwk).toMatchObject({ alg, use: 'sig', ...keys[0] });
  expect(keys).toHaveLength(1);
  for (const name of ['d', 'p', 'q', 'dp', 'dq', 'qi']) expect(keys[0]).not.toHaveProperty(name);
  expect(typeof privateJwk.d).toBe('string');
  expect(printed).not.toContain(privateJwk.d as string);
  expect(printed).toContain(privateJwk.kid as string);
  mkdirSync(place.path('holdfast-data'));
  await place.print('app', 'add', 'a', '--issuer', 'i', '--audience', 'a', '--jwks-file', 'public.json');
});

test('makes ES256 keys unless told, each with a kid of its own, the private one for its owner alone', async () => {
  const first = JSON.parse(await place.print(...NEW, '--json')) as Record<string, unknown>;
  expect(first).toEqual({
    kid: readJson('private.jwk').kid,
    alg: 'ES256',
    privateKeyFile: 'private.jwk',
    keySetFile: 'public.json',
  });
  expect(statSync(place.path('private.jwk')).mode & 0o777).toBe(0o600);
  const second = JSON.parse(
    await place.print('key', 'new', '--out', 'b', '--jwks', 'c', '--json'),
  ) as typeof first;
  expect(second.kid).not.toBe(first.kid);
});

test.each(['private.jwk', 'public.json'])(
  'never overwrites %s, and leaves no half of a pair',
  async (name) => {
    writeFileSync(place.path(name), 'precious');
    expect(await place.fail(1, ...NEW)).toContain('never overwritten');
    expect(readFileSync(place.path(name), 'utf8')).toBe('precious');
    const other = name === 'private.jwk' ? 'public.json' : 'private.jwk';
    expect(existsSync(place.path(other))).toBe(false);
  },
);

test('fails for a folder that is not there', async () => {
  expect(await place.fail(1, 'key', 'new', '--out', 'no/p', '--jwks', 'q')).toContain('check the path');
});

test.each<[string, readonly string[], string]>([
  ['no --out', ['key', 'new', '--jwks', 'a'], '--out'],
  ['no --jwks', ['key', 'new', '--out', 'a'], '--jwks'],
  ['one file for both', ['key', 'new', '--out', './a', '--jwks', 'a'], 'same file'],
  ['an unknown algorithm', [...NEW, '--alg', 'HS256'], 'HS256'],
])('is wrong usage with %s', async (_, args, reason) => {
  expect(await place.fail(2, ...args)).toContain(reason);
});
