/** The order of the table in docs/api.md, Capabilities: every pair of rows. */
import { describe, expect, test } from 'bun:test';
import type { AppRecord } from './registry-store.ts';
import { mint } from './test/auth-fixture.ts';
import { type Ask, key, openScene, outcome } from './test/scene-fixture.ts';

/** One fault per row; each changes one part of a request that would be granted. */
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

  test.each([{}, { iss: 'https://other.test' }])(
    'an App of which a row is damaged is neither served nor said to be unknown: %p',
    async (claims) => {
      const scene = await openScene({ status: 'damaged' });
      const bearer = `Bearer ${await mint(key, scene.world.now(), { claims })}`;
      expect(await outcome(scene, bearer, { operation: 'listRootRefs' })).toBe('registry_unavailable');
    },
  );
});
