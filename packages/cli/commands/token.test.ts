/** `holdfast token` as a process. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { ALGORITHMS } from '@holdfast/protocol';
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, type JSONWebKeySet, jwtVerify } from 'jose';
import { Workplace } from '../test/run-holdfast-fixture.ts';

let place: Workplace;
beforeAll(async () => {
  place = new Workplace();
  await place.print('key', 'new', '--out', 'private.jwk', '--jwks', 'public.json');
});
afterAll(() => place.remove());

const BASE = ['token', '--key', 'private.jwk', '--issuer', 'iss', '--audience', 'aud', '--space', 'home'];
const READ = [...BASE, '--permission', 'cas:nodes:read'];

async function claims(...args: readonly string[]): Promise<Record<string, unknown>> {
  return decodeJwt((await place.print(...args)).trim());
}

describe('the token', () => {
  test.each([...ALGORITHMS])('is a capability signed with %s, alone on one line', async (alg) => {
    await place.print('key', 'new', '--out', `${alg}.jwk`, '--jwks', `${alg}.json`, '--alg', alg);
    const printed = await place.print(...READ.with(2, `${alg}.jwk`));
    expect(printed).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    const keySet = JSON.parse(readFileSync(place.path(`${alg}.json`), 'utf8')) as JSONWebKeySet;
    const { protectedHeader } = await jwtVerify(printed.trim(), createLocalJWKSet(keySet), {
      issuer: 'iss',
      audience: 'aud',
      algorithms: [alg],
      typ: 'cas-cap+jwt',
    });
    expect(protectedHeader.kid).toBe(keySet.keys[0]?.kid as string);
  });

  test.each(['ES256', 'EdDSA'])('is not made with a %s key that is damaged', async (alg) => {
    await place.print('key', 'new', '--out', `whole-${alg}.jwk`, '--jwks', `whole-${alg}.json`, '--alg', alg);
    const key = JSON.parse(readFileSync(place.path(`whole-${alg}.jwk`), 'utf8')) as { d: string };
    const d = `${key.d.startsWith('A') ? 'B' : 'A'}${key.d.slice(1)}`;
    writeFileSync(place.path(`damaged-${alg}.jwk`), JSON.stringify({ ...key, d }), { mode: 0o600 });
    expect(await place.fail(1, ...READ.with(2, `damaged-${alg}.jwk`))).toContain(
      `is not a usable ${alg} key`,
    );
  });

  test.each<[string, readonly string[], string]>([
    ['root refs without a domain', ['cas:root-refs:read,cas:root-refs:update'], 'without --ref-domain'],
    ['longer than Apps allow', ['cas:nodes:read', '--ttl', '25h'], '--ttl 25h is more than the 24h'],
  ])('that no server will take (%s) comes with a warning', async (_, args, warning) => {
    const { exitCode, stdout, stderr } = await place.run(...BASE, '--permission', ...args);
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+\n$/)]);
    expect(stderr).toMatch(/^warning: [^\n]+\n$/);
    expect(stderr).toContain(warning);
  });

  test('says exactly what was asked', async () => {
    const seconds = Math.floor(Date.now() / 1000);
    const found = await claims(...READ, '--ref-domain', 'docs:v1', '--ttl', '24h');
    expect(found).toEqual({
      ver: 1,
      iss: 'iss',
      aud: 'aud',
      iat: expect.any(Number),
      exp: (found.iat as number) + 86_400,
      spaceId: 'home',
      permissions: ['cas:nodes:read'],
      refDomain: 'docs:v1',
    });
    expect(found.iat as number).toBeGreaterThanOrEqual(seconds);
    expect(found.iat as number).toBeLessThanOrEqual(Date.now() / 1000);
  });

  test('lives 5 minutes unless told, and has no refDomain unless told', async () => {
    const found = await claims(...READ);
    expect((found.exp as number) - (found.iat as number)).toBe(300);
    expect(found).not.toHaveProperty('refDomain');
  });

  test('takes permissions repeated, in words and with commas, each once', async () => {
    const found = await claims(
      ...[...BASE, '--permission', 'cas:nodes:read,cas:nodes:lease', 'cas:usage:read'],
      ...[
        '--permission',
        'cas:gc:execute',
        '--permission',
        'cas:nodes:read, cas:root-refs:read',
        '--ref-domain',
        'd',
      ],
    );
    expect(found.permissions).toEqual([
      'cas:nodes:read',
      'cas:nodes:lease',
      'cas:usage:read',
      'cas:gc:execute',
      'cas:root-refs:read',
    ]);
  });

  test('takes following words after --permission=, and words within one argument', async () => {
    const found = await claims(...BASE, '--permission=cas:nodes:read', 'cas:nodes:lease', '--ttl', '1m');
    expect(found.permissions).toEqual(['cas:nodes:read', 'cas:nodes:lease']);
    const quoted = await claims(...BASE, '--permission', 'cas:usage:read cas:gc:execute');
    expect(quoted.permissions).toEqual(['cas:usage:read', 'cas:gc:execute']);
  });

  test('comes with its expiry as JSON', async () => {
    const { token, expiresAt } = JSON.parse(await place.print(...READ, '--json')) as Record<string, unknown>;
    expect((decodeJwt(token as string).exp as number) * 1000).toBe(expiresAt as number);
  });

  test('needs no kid and no alg in the key where the curve is enough', async () => {
    const {
      kid: _kid,
      alg: _alg,
      use: _use,
      ...bare
    } = JSON.parse(readFileSync(place.path('private.jwk'), 'utf8'));
    writeFileSync(place.path('bare.jwk'), JSON.stringify(bare), { mode: 0o600 });
    const token = (await place.print(...READ.with(2, 'bare.jwk'))).trim();
    expect(decodeProtectedHeader(token)).toEqual({ alg: 'ES256', typ: 'cas-cap+jwt' });
  });
});

describe('fails without a word of the key', () => {
  test.each<[string, string, string]>([
    ['no JSON', '-----BEGIN hunter2-----', 'not JSON'],
    ['a public key', '{"kty":"EC"}', 'no private key'],
    ['a key set', '{"keys":[]}', 'no private key'],
    ['null', 'null', 'no private key'],
    ['an unknown algorithm', '{"kty":"EC","d":"hunter2","alg":"ES512"}', '"alg"'],
    ['RSA without an algorithm', '{"kty":"RSA","d":"hunter2"}', '"alg"'],
    [
      'numbers that are no key',
      '{"kty":"EC","crv":"P-256","x":"hunter2","y":"hunter2","d":"hunter2"}',
      'usable',
    ],
  ])('%s', async (_, text, reason) => {
    writeFileSync(place.path('bad.jwk'), text, { mode: 0o600 });
    const line = await place.fail(1, ...READ.with(2, 'bad.jwk'));
    expect(line).toContain(reason);
    expect(line).not.toContain('hunter2');
  });

  test('a file that is not there', async () => {
    expect(await place.fail(1, ...READ.with(2, 'nowhere.jwk'))).toContain('does not exist');
  });
});

test.each<[string, readonly string[], string]>([
  ['no permission', BASE, '--permission'],
  ['an empty permission', [...BASE, '--permission', ','], 'empty'],
  ['an unknown permission', [...BASE, '--permission', 'cas:node:read'], 'cas:nodes:read'],
  ['no key', ['token', ...READ.slice(3)], '--key'],
  ['no Space', READ.toSpliced(7, 2), '--space'],
  ['an empty Space', READ.with(8, ''), 'choose 1 to 256'],
  ['a bad refDomain', [...READ, '--ref-domain', 'Docs'], 'lower-case'],
  ['a bad duration', [...READ, '--ttl', '5 minutes'], 'not a duration'],
  ['a duration of 0', [...READ, '--ttl', '0s'], 'more than 0'],
])('is wrong usage with %s', async (_, args, reason) => {
  expect(await place.fail(2, ...args)).toContain(reason);
});
