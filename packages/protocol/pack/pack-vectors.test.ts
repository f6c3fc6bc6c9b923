import { expect, test } from 'bun:test';
import { readPackNaively } from '../test/naive-pack-fixture.ts';
import { JUDGE, judgePack } from '../test/pack-fixture.ts';
import { makePackVectors } from '../test/pack-vectors-fixture.ts';
import vectors from '../test-vectors/pack-vectors.json';

test('the vectors of the repository are those of the code', () => {
  expect(vectors).toEqual(JSON.parse(JSON.stringify(makePackVectors())));
});

test.each(vectors.map((vector) => [vector.name, vector] as const))('%s', (_, vector) => {
  const pack = Buffer.from(vector.packHex, 'hex');
  const expected = {
    lines: vector.records.map(({ hash, outcome }) => `${hash} ${outcome}`),
    brokenAt: vector.broken?.byte,
  };
  const { message, ...outcome } = judgePack([pack], { totalBytes: pack.length });
  expect(outcome).toEqual(expected);
  expect(readPackNaively(pack, JUDGE.nodeBytesMax)).toEqual(expected);
});
