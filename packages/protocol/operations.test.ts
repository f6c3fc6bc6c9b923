import { describe, expect, test } from 'bun:test';
import { AUTHORITIES, OPERATIONS, type OperationName } from './operations.ts';

const NAMES = Object.keys(OPERATIONS) as OperationName[];

describe('OPERATIONS', () => {
  test('is the table of the specification', () => {
    const rows = NAMES.map((name) => {
      const { method, path, authority, needsRefDomain } = OPERATIONS[name];
      return `${name} ${method} ${path.replace('/v1/apps/{appId}/spaces/{spaceId}', '…')} ${authority} ${needsRefDomain === true}`;
    });
    expect(rows).toEqual([
      'readContent GET …/cas/nodes/{hash}/content cas:nodes:read false',
      'readMetadata GET …/cas/nodes/{hash}/metadata cas:nodes:read false',
      'leaseNode POST …/cas/nodes/{hash}/lease cas:nodes:lease false',
      'getUsage GET …/cas/usage cas:usage:read false',
      'runGc POST …/cas/gc cas:gc:execute false',
      'listRootRefs GET …/root-refs cas:root-refs:read true',
      'updateRootRefs POST …/root-refs cas:root-refs:update true',
    ]);
    expect(new Set(NAMES.map((name) => OPERATIONS[name].authority))).toEqual(new Set(AUTHORITIES));
  });
});
