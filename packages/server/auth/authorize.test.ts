/** The rows of the table in docs/api.md, Capabilities, except row 7: see authorize-claims.test.ts. */

import { describe, expect, test } from 'bun:test';
import { ALGORITHMS, type OperationName } from '@holdfast/protocol';
import { KeySetUnavailable } from './auth-limits.ts';
import {
  APP_ID,
  AUDIENCE,
  encodePart,
  goodClaims,
  ISSUER,
  keySetText,
  mint,
  SPACE_ID,
  testKey,
} from './test/auth-fixture.ts';
import { ask, key, openScene, outcome, outcomeOf, refusal } from './test/scene-fixture.ts';

describe('a good capability', () => {
  test.each([...ALGORITHMS])('signed with %s is granted', async (algorithm) => {
    const signer = await testKey(algorithm);
    const scene = await openScene({ keys: { kind: 'static', jwks: keySetText(signer.publicJwk) } });
    const token = await mint(signer, scene.world.now(), { claims: { sub: 'someone', jti: 'id-1' } });
    expect(await ask(scene, `Bearer ${token}`)).toEqual({
      appId: APP_ID,
      spaceId: SPACE_ID,
      permissions: new Set(['cas:nodes:read', 'cas:root-refs:read']),
      refDomain: 'docs',
      subject: 'someone',
      tokenId: 'id-1',
    });
  });

  test('is granted whatever the case of the scheme and the spaces after it', async () => {
    const scene = await openScene();
    const token = await mint(key, scene.world.now());
    expect(await outcome(scene, `bearer ${token}`)).toBe('granted');
    expect(await outcome(scene, `BEARER   ${token}`)).toBe('granted');
    expect(await outcome(scene, `Bearer   ${token}`)).toBe('granted');
  });

  test.each([
    'JWT',
    'jwt',
    'application/jwt',
    'cas-cap+jwt',
    'application/CAS-CAP+JWT',
    'unidocs-cap+jwt',
    'Application/Unidocs-Cap+JWT',
  ])('has typ %s', async (typ) => {
    expect(await outcomeOf({ header: { typ } })).toBe('granted');
  });

  test.each([
    ['an array of audiences', { aud: ['other', AUDIENCE] }],
    ['fractions of seconds', { exp: 1767225900.5 }],
    ['claims of its own', { name: 'x', nested: { a: [1, { b: null }] } }],
    ['nbf in the past', { nbf: 1 }],
    ['no refDomain', { refDomain: undefined }],
    ['a refDomain of a wrong form', { refDomain: 'Docs' }],
    ['a refDomain that is no string', { refDomain: 7 }],
  ])('may have %s', async (_, claims) => {
    expect(await outcomeOf({ claims })).toBe('granted');
  });
});

describe('row 1', () => {
  test('no header at all', async () => {
    const error = await refusal(await openScene(), null);
    expect([error.code, error.status]).toEqual(['missing_token', 401]);
    expect(error.headers?.['www-authenticate']).toMatch(/^Bearer realm="[^"]+", error="invalid_request"$/);
  });
});

describe('row 2: invalid_token', () => {
  const es256 = encodePart('{"alg":"ES256"}');
  const claims = encodePart(JSON.stringify({ iss: ISSUER }));
  test.each([
    ['empty header', ''],
    ['another scheme', 'Basic YTpi'],
    ['scheme alone', 'Bearer'],
    ['scheme and space', 'Bearer '],
    ['no space', 'Bearerabc'],
    ['not a JWT', 'Bearer abc'],
    ['two parts', `Bearer ${es256}.${claims}`],
    ['five parts', `Bearer ${es256}.${claims}.a.b.c`],
    ['two tokens', `Bearer ${es256}.${claims}.AAAA, Bearer ${es256}.${claims}.AAAA`],
    ['padding', `Bearer ${es256}=.${claims}.AAAA`],
    ['header that is no JSON', `Bearer ${encodePart('{alg}')}.${claims}.AAAA`],
    ['header that is an array', `Bearer ${encodePart('["ES256"]')}.${claims}.AAAA`],
    ['header with a name twice', `Bearer ${encodePart('{"alg":"ES256","alg":"ES256"}')}.${claims}.AAAA`],
    ['claims that are no JSON', `Bearer ${es256}.${encodePart('iss')}.AAAA`],
    ['claims with a name twice', `Bearer ${es256}.${encodePart('{"iss":"a","\\u0069ss":"b"}')}.AAAA`],
    ['no alg', `Bearer ${encodePart('{}')}.${claims}.AAAA`],
    ['alg that is no string', `Bearer ${encodePart('{"alg":1}')}.${claims}.AAAA`],
    ['no iss', `Bearer ${es256}.${encodePart('{}')}.AAAA`],
    ['iss that is no string', `Bearer ${es256}.${encodePart('{"iss":["a"]}')}.AAAA`],
    ['undecodable signature', `Bearer ${es256}.${claims}.AAAAA`],
    [
      'a token of 8193 characters',
      `Bearer ${es256}.${claims}.${'A'.repeat(8192 - es256.length - claims.length)}`,
    ],
  ])('%s', async (_, authorization) => {
    const error = await refusal(await openScene(), authorization);
    expect([error.code, error.status]).toEqual(['invalid_token', 401]);
    expect(error.headers?.['www-authenticate']).toMatch(/^Bearer realm="[^"]+", error="invalid_token"$/);
  });
});

describe('row 3: unsupported_algorithm', () => {
  test.each(['none', 'None', 'HS256', 'HS512', 'ES512', 'RS384', 'PS512', 'Ed25519', 'es256', ''])(
    'alg %p',
    async (alg) => {
      const error = await refusal(
        await openScene(),
        `Bearer ${encodePart(JSON.stringify({ alg }))}.${encodePart(JSON.stringify(goodClaims(0)))}.`,
      );
      expect([error.code, error.status]).toEqual(['unsupported_algorithm', 401]);
      expect(error.headers?.['www-authenticate']).toContain('error="invalid_token"');
    },
  );

  test("outside the issuer's narrower list", async () => {
    expect(await outcomeOf({}, await openScene({ algorithms: ['EdDSA', 'RS256'] }))).toBe(
      'unsupported_algorithm',
    );
    expect(await outcomeOf({}, await openScene({ algorithms: ['EdDSA', 'ES256'] }))).toBe('granted');
  });
});

describe('rows 4 to 6', () => {
  test('4: an issuer nobody registered, the empty one too', async () => {
    expect(await outcomeOf({ claims: { iss: 'https://other.test' } })).toBe('unknown_issuer');
    expect(await outcomeOf({ claims: { iss: '' } })).toBe('unknown_issuer');
    const error = await refusal(
      await openScene(),
      `Bearer ${await mint(key, 0, { claims: { iss: 'https://other.test' } })}`,
    );
    expect(error.headers?.['www-authenticate']).toContain('error="invalid_token"');
  });

  test('5: a registry that cannot be read, once the snapshot is over 5 s old', async () => {
    const scene = await openScene();
    scene.store.failure = new Error('disk gone');
    scene.world.stall(5000);
    expect(await outcomeOf({}, scene)).toBe('granted');
    scene.world.stall(1);
    const error = await refusal(scene, `Bearer ${await mint(key, scene.world.now())}`);
    expect([error.code, error.status]).toEqual(['registry_unavailable', 503]);
    expect(error.retryAfterSeconds).toBeGreaterThan(0);
    expect(error.headers?.['www-authenticate']).toBeUndefined();
  });

  test('5: a key set that cannot be fetched', async () => {
    const scene = await openScene({ keys: { kind: 'url', url: 'https://issuer.test/jwks.json' } });
    const error = await refusal(scene, `Bearer ${await mint(key, scene.world.now())}`);
    expect([error.code, error.status]).toEqual(['registry_unavailable', 503]);
    expect(error instanceof KeySetUnavailable && error.appId).toBe(APP_ID);
    expect(error.retryAfterSeconds).toBeGreaterThan(0);
  });

  test('5: a registered key set that is no key set', async () => {
    const scene = await openScene({ keys: { kind: 'static', jwks: '{' } });
    const error = await refusal(scene, `Bearer ${await mint(key, scene.world.now())}`);
    expect(error.code).toBe('registry_unavailable');
    expect(error instanceof KeySetUnavailable && error.appId).toBe(APP_ID);
  });

  test('6: a suspended App', async () => {
    const scene = await openScene({ status: 'suspended' });
    const error = await refusal(scene, `Bearer ${await mint(key, scene.world.now())}`);
    expect([error.code, error.status]).toEqual(['APP_SUSPENDED', 403]);
  });
});

describe('rows 8 to 10', () => {
  test('8: another App, another Space, no folding of case', async () => {
    const scene = await openScene();
    const bearer = `Bearer ${await mint(key, scene.world.now())}`;
    for (const target of [{ appId: 'other' }, { appId: 'APP' }, { spaceId: 'other' }, { spaceId: 'Space' }]) {
      const error = await refusal(scene, bearer, target);
      expect([error.code, error.status]).toEqual(['resource_scope_mismatch', 403]);
    }
  });

  test('8: an id that is no id is 400 in its place', async () => {
    const scene = await openScene();
    const bearer = `Bearer ${await mint(key, scene.world.now(), { claims: { permissions: [] } })}`;
    expect((await refusal(scene, bearer, { appId: undefined })).status).toBe(400);
    expect((await refusal(scene, bearer, { spaceId: undefined })).code).toBe('INVALID_REQUEST');
    expect((await refusal(scene, null, { spaceId: undefined })).code).toBe('missing_token');
  });

  test.each<[OperationName, string]>([
    ['readContent', 'cas:nodes:read'],
    ['readMetadata', 'cas:nodes:read'],
    ['leaseNode', 'cas:nodes:lease'],
    ['getUsage', 'cas:usage:read'],
    ['runGc', 'cas:gc:execute'],
    ['listRootRefs', 'cas:root-refs:read'],
    ['updateRootRefs', 'cas:root-refs:update'],
  ])('9: %s needs exactly %s', async (operation, permission) => {
    const scene = await openScene();
    const now = scene.world.now();
    const all = ['cas:nodes:read', 'cas:nodes:lease', 'cas:usage:read', 'cas:gc:execute'];
    const others = [...all, 'cas:root-refs:read', 'cas:root-refs:update'].filter(
      (each) => each !== permission,
    );
    const near = ['cas:*', `${permission} `, permission.toUpperCase(), permission.slice(0, -1)];
    const exact = await mint(key, now, { claims: { permissions: [permission] } });
    const without = await mint(key, now, { claims: { permissions: [...others, ...near] } });
    expect(await outcome(scene, `Bearer ${exact}`, { operation })).toBe('granted');
    const error = await refusal(scene, `Bearer ${without}`, { operation });
    expect([error.code, error.status]).toEqual(['insufficient_permission', 403]);
  });

  test.each<[unknown, string]>([
    [undefined, 'resource_scope_mismatch'],
    [null, 'resource_scope_mismatch'],
    [7, 'resource_scope_mismatch'],
    ['', 'resource_scope_mismatch'],
    ['Docs', 'resource_scope_mismatch'],
    ['1docs', 'resource_scope_mismatch'],
    ['docs:', 'resource_scope_mismatch'],
    ['docs::a', 'resource_scope_mismatch'],
    ['docs\n', 'resource_scope_mismatch'],
    ['a'.repeat(65), 'resource_scope_mismatch'],
    ['a'.repeat(64), 'granted'],
    ['docs:1:2', 'granted'],
  ])('10: refDomain %p is %s', async (refDomain, expected) => {
    const scene = await openScene();
    const token = await mint(key, scene.world.now(), { claims: { refDomain } });
    expect(await outcome(scene, `Bearer ${token}`, { operation: 'listRootRefs' })).toBe(expected);
    expect(await outcome(scene, `Bearer ${token}`, { operation: 'readMetadata' })).toBe('granted');
  });
});

test('no refusal quotes the token or its parts', async () => {
  const scene = await openScene();
  const token = await mint(key, scene.world.now(), { claims: { sub: 'secret-subject', ver: 2 } });
  for (const bearer of [
    `Bearer ${token}`,
    `Bearer ${token}.x`,
    `Basic ${token}`,
    `Bearer ${token.slice(0, -3)}`,
  ]) {
    const error = await refusal(scene, bearer);
    const shown = `${error.message} ${JSON.stringify(error.headers)} ${error.cause ?? ''} ${error.stack}`;
    for (const part of [...token.split('.'), 'secret-subject']) expect(shown).not.toContain(part);
  }
});
