import { expect, test } from 'bun:test';
import fc from 'fast-check';
import { isPathId, parsePathId } from '../ids.ts';
import { matchSpacePath } from '../space-paths.ts';
import {
  BULK_OPERATIONS,
  type BulkOperationName,
  bulkOperationPath,
  isPackId,
  matchBulkPath,
  PACK_ID_BYTES,
} from './bulk-operations.ts';

const NAMES = Object.keys(BULK_OPERATIONS) as BulkOperationName[];
const packId = '0123456789abcdef'.repeat(2);

test('the table', () => {
  const rows = NAMES.map((name) => {
    const { method, path, authority } = BULK_OPERATIONS[name];
    return `${name} ${method} ${path.replace('/bulk/v1/apps/{appId}/spaces/{spaceId}', '…')} ${authority}`;
  });
  expect(rows).toEqual([
    'leaseNodes POST …/leases cas:nodes:lease',
    'leasePack POST …/packs/{packId}/lease cas:nodes:lease',
    'readNodes POST …/reads cas:nodes:read',
  ]);
});

test('every operation is found at its own path, ids as they were, and none by the Space API', () => {
  const id = fc.string({ unit: 'binary', maxLength: 20 }).filter(isPathId);
  fc.assert(
    fc.property(fc.constantFrom(...NAMES), id, id, (name, appId, spaceId) => {
      const path = bulkOperationPath(name, { appId, spaceId, packId });
      const match = matchBulkPath(path);
      expect(match?.operation).toBe(name);
      expect(match?.packId).toBe(name === 'leasePack' ? packId : undefined);
      expect(parsePathId(match?.appId ?? '')).toEqual({ kind: 'id', id: appId });
      expect(parsePathId(match?.spaceId ?? '')).toEqual({ kind: 'id', id: spaceId });
      expect(matchSpacePath(path)).toBeUndefined();
    }),
  );
});

test.each([
  '/bulk/v1',
  '/bulk/v1/apps/a/spaces/s',
  '/bulk/v1/apps/a/spaces/s/leases/',
  '/bulk/v1/apps/a/spaces/s/packs',
  '/bulk/v1/apps/a/spaces/s/packs/p',
  '/bulk/v1/apps/a/spaces/s/packs/p/q/lease',
  '/bulk/v2/apps/a/spaces/s/leases',
  '/v1/apps/a/spaces/s/leases',
  'x/bulk/v1/apps/a/spaces/s/leases',
])('%s is no path of Bulk', (path) => {
  expect(matchBulkPath(path)).toBeUndefined();
});

test('a path needs its ids', () => {
  expect(() => bulkOperationPath('leasePack', { appId: 'a', spaceId: 's' })).toThrow(RangeError);
  expect(() => bulkOperationPath('readNodes', { appId: '..', spaceId: 's' })).toThrow(RangeError);
});

test('a pack id is 128 bits in lowercase hexadecimal', () => {
  expect(isPackId(packId)).toBe(true);
  expect(packId).toHaveLength(2 * PACK_ID_BYTES);
  for (const id of [packId.toUpperCase(), packId.slice(1), `${packId}0`, `${packId}\n`, '', undefined]) {
    expect(isPackId(id)).toBe(false);
  }
});
