/** A row whose values are of other types than were written is refused as damage: no answer is made of it. */
import { expect, test } from 'bun:test';
import type { NodeRow } from '../../core/model.ts';
import { nodeSum } from '../../core/rows/row-sums.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { hashAt } from '../test/samples.ts';
import { decodeNode, nodeFromSql } from './rows.ts';

const values = {
  ...{
    space: 1,
    hash: new Uint8Array(32),
    state: 1,
    size: 100,
    canonical_size: 134,
    content_type: 'text/plain',
  },
  ...{ refs: new Uint8Array(32), generation: new Uint8Array(16), storage: 1, lease_started_at: 0 },
  ...{ lease_expires_at: 0, child_ref_count: 0, root_ref_count: 0, held_domain_count: 0 },
  ...{ waiting_touched_at: 0, claim_held_until: 0, stored_size: 134 },
};
const row = { ...values, row_sum: nodeSum(1, decodeNode(values, hashAt(1)) as NodeRow) };
const columns = Object.keys(row).filter((column) => column !== 'hash');

test('a sound row is a node', () => {
  expect(nodeFromSql(row, hashAt(1))).toMatchObject({ hash: hashAt(1), state: 'ready', size: 100 });
});

test.each(columns)('a row with another type of %s is damaged', (column) => {
  for (const other of [null, undefined, 1.5, 'text', new Uint8Array(3)]) {
    expect(() => nodeFromSql({ ...row, [column]: other }, hashAt(1))).toThrow(StoreUnavailable);
  }
});
