/** The order table of contract section 3, row by row and every pair of rows. */
import { afterAll, describe, expect, test } from 'bun:test';
import { ALGORITHMS, ApiError, type OperationName } from '@holdfast/protocol';
import { type Authorizer, authorize, openAuthorizer } from './authorize.ts';
import type { Capability } from './capability.ts';
import type { AppRecord } from './registry-store.ts';
import { FakeWorld } from './test/fake-world.ts';
import {
  APP_ID,
  AUDIENCE,
  appRecord,
  encodePart,
  goodClaims,
  ISSUER,
  keySetText,
  MemoryRegistryStore,
  mint,
  SPACE_ID,
  signByHand,
  type TokenParts,
  testKey,
} from './test/fixture.ts';

const key = await testKey('ES256');
const opened: Authorizer[] = [];
afterAll(() => {
  for (const authorizer of opened) authorizer.close();
});

interface Scene {
  readonly world: FakeWorld;
  readonly store: MemoryRegistryStore;
  readonly authorizer: Authorizer;
}

async function openScene(change: Partial<AppRecord> = {}, keyMembers: object = {}): Promise<Scene> {
  const world = new FakeWorld();
  const jwks = keySetText({ ...key.publicJwk, ...keyMembers });
  const store = new MemoryRegistryStore(appRecord({ keys: { kind: 'static', jwks }, ...change }));
  const authorizer = await openAuthorizer(store, world);
  opened.push(authorizer);
  return { world, store, authorizer };
}

interface Ask {
  readonly appId?: string | undefined;
  readonly spaceId?: string | undefined;
  readonly operation?: OperationName;
}

async function ask(scene: Scene, authorization: string | null, target: Ask = {}): Promise<Capability> {
  const { appId, spaceId, operation } = {
    appId: APP_ID,
    spaceId: SPACE_ID,
    operation: 'readMetadata' as const,
    ...target,
  };
  return await authorize(scene.authorizer, authorization, appId, spaceId, operation);
}

/** The code of the refusal; "granted" when there is none. */
async function outcome(scene: Scene, authorization: string | null, target: Ask = {}): Promise<string> {
  return await ask(scene, authorization, target).then(
    () => 'granted',
    (error: unknown) => (error instanceof ApiError ? error.code : `not an ApiError: ${error}`),
  );
}

async function outcomeOf(parts: TokenParts, scene?: Scene): Promise<string> {
  const where = scene ?? (await openScene());
  return await outcome(where, `Bearer ${await mint(key, where.world.now(), parts)}`);
}

async function refusal(scene: Scene, authorization: string | null, target: Ask = {}): Promise<ApiError> {
  const error = await ask(scene, authorization, target).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ApiError);
  return error as ApiError;
}

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

  test.each(['JWT', 'jwt', 'application/jwt', 'cas-cap+jwt', 'application/CAS-CAP+JWT'])(
    'has typ %s',
    async (typ) => {
      expect(await outcomeOf({ header: { typ } })).toBe('granted');
    },
  );

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
    expect(error.retryAfterSeconds).toBeGreaterThan(0);
  });

  test('5: a registered key set that is no key set', async () => {
    expect(await outcomeOf({}, await openScene({ keys: { kind: 'static', jwks: '{' } }))).toBe(
      'registry_unavailable',
    );
  });

  test('6: a suspended App', async () => {
    const scene = await openScene({ status: 'suspended' });
    const error = await refusal(scene, `Bearer ${await mint(key, scene.world.now())}`);
    expect([error.code, error.status]).toEqual(['APP_SUSPENDED', 403]);
  });
});

describe('row 7: invalid_token', () => {
  test('a signature by another key', async () => {
    const scene = await openScene();
    const forged = await mint(await testKey('ES256', 'other'), scene.world.now());
    expect(await outcome(scene, `Bearer ${forged}`)).toBe('invalid_token');
  });

  test('a changed header, changed claims, no signature', async () => {
    const scene = await openScene();
    const [header, claims, signature] = (await mint(key, scene.world.now())).split('.') as [
      string,
      string,
      string,
    ];
    const more = encodePart(JSON.stringify({ ...goodClaims(scene.world.now()), sub: 'root' }));
    const otherHeader = encodePart('{"alg":"ES256","typ":"JWT"}');
    expect(await outcome(scene, `Bearer ${header}.${more}.${signature}`)).toBe('invalid_token');
    expect(await outcome(scene, `Bearer ${otherHeader}.${claims}.${signature}`)).toBe('invalid_token');
    expect(await outcome(scene, `Bearer ${header}.${claims}.`)).toBe('invalid_token');
    expect(await outcome(scene, `Bearer ${header}.${claims}.${signature}`)).toBe('granted');
  });

  test('keys in the header are never believed', async () => {
    const intruder = await testKey('ES256', 'intruder');
    const scene = await openScene();
    for (const header of [
      { jwk: intruder.publicJwk },
      { jku: 'https://intruder.test/jwks.json' },
      { x5u: 'https://intruder.test/cert.pem' },
      { x5c: ['MIIB'] },
    ]) {
      const token = await mint(intruder, scene.world.now(), { header });
      expect(await outcome(scene, `Bearer ${token}`)).toBe('invalid_token');
      // Nor do they spoil a token whose registered key has signed.
      expect(await outcomeOf({ header }, scene)).toBe('granted');
    }
    expect(scene.world.fetchCount).toBe(0);
  });

  test.each([
    ['crit', { crit: ['exp'] }],
    ['an empty crit', { crit: [] }],
    ['crit with b64', { crit: ['b64'], b64: true }],
    ['another typ', { typ: 'at+jwt' }],
    ['a typ that is no string', { typ: 1 }],
    ['a typ that only begins well', { typ: 'JWTX' }],
    ['an empty typ', { typ: '' }],
    ['a kid that is no string', { kid: 1 }],
    ['an unknown kid', { kid: 'unknown' }],
  ])('header with %s', async (_, header) => {
    expect(await outcomeOf({ header })).toBe('invalid_token');
  });

  const seconds = Math.floor(new FakeWorld().now() / 1000);
  test.each<[string, Record<string, unknown>]>([
    ['no aud', { aud: undefined }],
    ['another aud', { aud: 'holdfast' }],
    ['aud in another case', { aud: AUDIENCE.toUpperCase() }],
    ['an array without the audience', { aud: ['a', 'b'] }],
    ['an array with something else than strings', { aud: [AUDIENCE, 1] }],
    ['no exp', { exp: undefined }],
    ['exp as text', { exp: String(seconds + 300) }],
    ['exp beyond numbers', { exp: Number.MAX_VALUE }],
    ['no iat', { iat: undefined }],
    ['iat null', { iat: null }],
    ['nbf as text', { nbf: '1' }],
    ['nbf null', { nbf: null }],
    ['no ver', { ver: undefined }],
    ['ver 2', { ver: 2 }],
    ['ver as text', { ver: '1' }],
    ['no spaceId', { spaceId: undefined }],
    ['an empty spaceId', { spaceId: '' }],
    ['spaceId as number', { spaceId: 1 }],
    ['no permissions', { permissions: undefined }],
    ['permissions as text', { permissions: 'cas:nodes:read' }],
    ['permissions with a number', { permissions: ['cas:nodes:read', 1] }],
    ['sub as number', { sub: 1 }],
    ['jti null', { jti: null }],
    ['iat over 30 s ahead', { iat: seconds + 31 }],
    ['nbf over 30 s ahead', { nbf: seconds + 31 }],
    ['exp 30 s ago', { iat: seconds - 60, exp: seconds - 30 }],
    ['a lifetime of 24 h and 1 s', { exp: seconds + 86_401 }],
  ])('claims with %s', async (_, claims) => {
    expect(await outcomeOf({ claims })).toBe('invalid_token');
  });

  test.each<[string, Record<string, unknown>]>([
    ['iat 30 s ahead', { iat: seconds + 30 }],
    ['nbf 30 s ahead', { nbf: seconds + 30 }],
    ['exp 29 s ago', { iat: seconds - 60, exp: seconds - 29 }],
    ['a lifetime of 24 h', { exp: seconds + 86_400 }],
    ['no permission at all but the one needed', { permissions: ['cas:nodes:read'] }],
  ])('not for %s', async (_, claims) => {
    expect(await outcomeOf({ claims })).toBe('granted');
  });

  test("the App's own maximum lifetime", async () => {
    const scene = await openScene({ tokenLifetimeMsMax: 60_000 });
    expect(await outcomeOf({ claims: { exp: seconds + 60 } }, scene)).toBe('granted');
    expect(await outcomeOf({ claims: { exp: seconds + 61 } }, scene)).toBe('invalid_token');
  });

  test('claims nested deeper than the limit are no JWT', async () => {
    const scene = await openScene();
    const deep = `{"iss":"${ISSUER}","x":${'['.repeat(16)}${']'.repeat(16)}}`;
    const token = await signByHand(key, { alg: 'ES256' }, deep);
    expect(await outcome(scene, `Bearer ${token}`)).toBe('invalid_token');
  });
});

describe('which key', () => {
  test('kid selects; without one exactly one key must fit the algorithm', async () => {
    const other = await testKey('ES256', 'other');
    const edwards = await testKey('EdDSA');
    const jwks = keySetText(
      { ...key.publicJwk, kid: 'a' },
      { ...other.publicJwk, kid: 'b' },
      { ...edwards.publicJwk, kid: 'a' },
    );
    const scene = await openScene({ keys: { kind: 'static', jwks } });
    const now = scene.world.now();
    const tokens: [string, string][] = [
      [await mint(key, now, { header: { kid: 'a' } }), 'granted'],
      [await mint(other, now, { header: { kid: 'b' } }), 'granted'],
      [await mint(key, now, { header: { kid: 'b' } }), 'invalid_token'],
      [await mint(key, now), 'invalid_token'],
      [await mint(edwards, now), 'granted'],
      [await mint(edwards, now, { header: { kid: 'a' } }), 'granted'],
      [await mint(edwards, now, { header: { kid: 'b' } }), 'invalid_token'],
    ];
    for (const [token, expected] of tokens) expect(await outcome(scene, `Bearer ${token}`)).toBe(expected);
  });

  test('a key restricted by alg, use or key_ops serves nothing else', async () => {
    const rsa = await testKey('PS256');
    for (const members of [{ alg: 'RS256' }, { use: 'enc' }, { key_ops: ['encrypt'] }]) {
      const jwks = keySetText({ ...rsa.publicJwk, ...members });
      const scene = await openScene({ keys: { kind: 'static', jwks } });
      expect(await outcome(scene, `Bearer ${await mint(rsa, scene.world.now())}`)).toBe('invalid_token');
    }
    const jwks = keySetText({ ...rsa.publicJwk, alg: 'PS256', use: 'sig', key_ops: ['verify'] });
    const scene = await openScene({ keys: { kind: 'static', jwks } });
    expect(await outcome(scene, `Bearer ${await mint(rsa, scene.world.now())}`)).toBe('granted');
  });

  test('several keys with one kid and algorithm fit none', async () => {
    const other = await testKey('ES256', 'other');
    const jwks = keySetText({ ...key.publicJwk, kid: 'a' }, { ...other.publicJwk, kid: 'a' });
    const scene = await openScene({ keys: { kind: 'static', jwks } });
    expect(await outcomeOf({ header: { kid: 'a' } }, scene)).toBe('invalid_token');
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

/** One fault per row; each changes one thing of a request that would be granted. */
interface Faults {
  noHeader?: true;
  record?: Partial<AppRecord>;
  header?: Record<string, unknown>;
  claims?: Record<string, unknown>;
  target?: Ask;
}

const FAULTS: readonly (readonly [string, string, Faults])[] = [
  ['1', 'missing_token', { noHeader: true }],
  ['2 no alg', 'invalid_token', { header: { alg: undefined } }],
  ['3 unsupported', 'unsupported_algorithm', { header: { alg: 'HS256' } }],
  ['4', 'unknown_issuer', { claims: { iss: 'https://other.test' } }],
  ['5', 'registry_unavailable', { record: { keys: { kind: 'url', url: 'https://issuer.test/jwks' } } }],
  ['6', 'APP_SUSPENDED', { record: { status: 'suspended' } }],
  ['3 narrower', 'unsupported_algorithm', { record: { algorithms: ['RS256'] } }],
  ['7 kid', 'invalid_token', { header: { kid: 'unknown' } }],
  ['7 claims', 'invalid_token', { claims: { ver: 2 } }],
  ['8', 'resource_scope_mismatch', { target: { appId: 'other' } }],
  ['9', 'insufficient_permission', { claims: { permissions: [] } }],
  ['10', 'resource_scope_mismatch', { claims: { refDomain: undefined } }],
];

describe('the first of two faults answers', () => {
  const pairs = FAULTS.flatMap((first, at) => FAULTS.slice(at + 1).map((second) => [first, second] as const));
  test.each(pairs.map(([first, second]) => [first[0], second[0], first, second] as const))(
    'row %s before row %s',
    async (_first, _second, [, expected, first], [, , second]) => {
      const scene = await openScene({ ...first.record, ...second.record });
      const token = await mint(key, scene.world.now(), {
        header: { ...second.header, ...first.header },
        claims: { ...second.claims, ...first.claims },
      });
      const bearer = first.noHeader === true ? null : `Bearer ${token}`;
      const target: Ask = { operation: 'listRootRefs', ...second.target, ...first.target };
      expect(await outcome(scene, bearer, target)).toBe(expected);
    },
  );

  test.each(FAULTS.map(([row, expected, fault]) => [row, expected, fault] as const))(
    'row %s alone: %s',
    async (_, expected, fault) => {
      const scene = await openScene(fault.record);
      const token = await mint(key, scene.world.now(), {
        ...(fault.header === undefined ? {} : { header: fault.header }),
        ...(fault.claims === undefined ? {} : { claims: fault.claims }),
      });
      const bearer = fault.noHeader === true ? null : `Bearer ${token}`;
      expect(await outcome(scene, bearer, { operation: 'listRootRefs', ...fault.target })).toBe(expected);
    },
  );

  test('no fault: granted', async () => {
    const scene = await openScene();
    const bearer = `Bearer ${await mint(key, scene.world.now())}`;
    expect(await outcome(scene, bearer, { operation: 'listRootRefs' })).toBe('granted');
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
