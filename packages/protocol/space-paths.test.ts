import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { isPathId, parsePathId } from './ids.ts';
import { OPERATIONS, type OperationName } from './operations.ts';
import { matchSpacePath, operationPath } from './space-paths.ts';

const NAMES = Object.keys(OPERATIONS) as OperationName[];
const hash = 'ab'.repeat(32);

describe('matchSpacePath', () => {
  test('finds every operation at its own path, ids as they were', () => {
    const id = fc.string({ unit: 'binary', maxLength: 20 }).filter(isPathId);
    fc.assert(
      fc.property(fc.constantFrom(...NAMES), id, id, (name, appId, spaceId) => {
        const match = matchSpacePath(operationPath(name, { appId, spaceId, hash }));
        expect(match?.route[OPERATIONS[name].method === 'GET' ? 'get' : 'post']).toBe(name);
        expect(match?.hash).toBe(OPERATIONS[name].path.includes('{hash}') ? hash : undefined);
        expect(parsePathId(match?.appId ?? '')).toEqual({ kind: 'id', id: appId });
        expect(parsePathId(match?.spaceId ?? '')).toEqual({ kind: 'id', id: spaceId });
      }),
    );
  });

  test('says which methods a path has', () => {
    expect(matchSpacePath('/v1/apps/a/spaces/s/root-refs')).toEqual({
      appId: 'a',
      spaceId: 's',
      hash: undefined,
      route: expect.objectContaining({ get: 'listRootRefs', post: 'updateRootRefs' }),
    });
    expect(matchSpacePath('/v1/apps/a/spaces/s/cas/gc')?.route).toMatchObject({
      get: undefined,
      post: 'runGc',
    });
  });

  test.each([
    '',
    '/',
    '/health',
    '/v1/apps/a',
    '/v1/apps/a/spaces/s',
    '/v1/apps/a/spaces/s/',
    '/v1/apps/a/spaces/s/root-refs/',
    '/v1/apps/a/spaces/s//root-refs',
    '/v1/apps/a/b/spaces/s/root-refs',
    '/v1/apps/a/Spaces/s/root-refs',
    '/v2/apps/a/spaces/s/root-refs',
    '/V1/apps/a/spaces/s/root-refs',
    '/v1/apps/a/spaces/s/cas',
    '/v1/apps/a/spaces/s/cas/usage/',
    '/v1/apps/a/spaces/s/cas/Usage',
    '/v1/apps/a/spaces/s/cas/nodes',
    `/v1/apps/a/spaces/s/cas/nodes/${hash}`,
    `/v1/apps/a/spaces/s/cas/nodes/${hash}/`,
    `/v1/apps/a/spaces/s/cas/nodes/${hash}/content/`,
    `/v1/apps/a/spaces/s/cas/nodes/${hash}/x/content`,
    `/v1/apps/a/spaces/s/cas/nodes/${hash}/__proto__`,
    '/v1/apps/a/spaces/s/constructor',
    '/x/v1/apps/a/spaces/s/root-refs',
  ])('%s is no route', (path) => {
    expect(matchSpacePath(path)).toBeUndefined();
  });

  test('any path matches a template, or nothing', () => {
    const segment = fc.constantFrom(
      'v1',
      'apps',
      'a',
      'spaces',
      's',
      'cas',
      'nodes',
      hash,
      'content',
      'root-refs',
      'gc',
      '',
    );
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 10 }), (segments) => {
        const path = `/${segments.join('/')}`;
        const patterns = NAMES.map(
          (name) => new RegExp(`^${OPERATIONS[name].path.replace(/\{\w+\}/g, '[^/]*')}$`),
        );
        expect(matchSpacePath(path) !== undefined).toBe(patterns.some((pattern) => pattern.test(path)));
      }),
      { numRuns: 500 },
    );
  });
});

describe('operationPath', () => {
  test('encodes ids', () => {
    expect(operationPath('getUsage', { appId: 'a/b', spaceId: 'é?' })).toBe(
      '/v1/apps/a%2Fb/spaces/%C3%A9%3F/cas/usage',
    );
  });
  test.each(['', '.', '..', '\ud800'])('refuses the id %p, which no path can carry', (appId) => {
    expect(() => operationPath('getUsage', { appId, spaceId: 's' })).toThrow(RangeError);
  });
  test('refuses a missing hash', () => {
    expect(() => operationPath('leaseNode', { appId: 'a', spaceId: 's' })).toThrow(/hash/);
  });
});
