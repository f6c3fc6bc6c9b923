import { expect, test } from 'bun:test';
import vectors from '../../../../docs/tree-vectors.json';
import { makeTreeVectors } from '../../test/tree-vectors-fixture.ts';

test('the golden vectors of the tree format are what this code makes', async () => {
  expect(await makeTreeVectors()).toEqual(vectors as unknown);
}, 300_000);
