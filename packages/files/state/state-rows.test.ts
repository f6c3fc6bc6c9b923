import { expect, test } from 'bun:test';
import { TreeStateLostError } from '../push/state-failure.ts';
import { packCommit, seal, unpackCommit } from './state-rows.ts';

const COMMIT = { requestId: 'r-1', hash: 'a'.repeat(64) };

test('an open commit reads back, and one of another form is damage, however right its sum is', () => {
  expect(unpackCommit('scope', packCommit('scope', COMMIT))).toEqual(COMMIT);
  const { requestId, hash } = COMMIT;
  const forms = [
    '',
    '{',
    'null',
    '[]',
    JSON.stringify({ requestId }),
    JSON.stringify({ ...COMMIT, more: 1 }),
  ];
  const values = [
    { requestId: 1, hash },
    { requestId: '', hash },
    { requestId, hash: 'A'.repeat(64) },
  ];
  for (const text of [...forms, ...values.map((value) => JSON.stringify(value))]) {
    const sealed = seal('scope', new TextEncoder().encode(text));
    expect(() => unpackCommit('scope', sealed)).toThrow(TreeStateLostError);
  }
});
