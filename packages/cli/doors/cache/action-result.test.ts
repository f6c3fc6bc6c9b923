import { expect, test } from 'bun:test';
import { actionResult, digest, message, sha256 } from '../../../../test/support/action-results.ts';
import { makeRandom } from '../../../../test/support/seeded-random.ts';
import { parseActionResult, parseDirectory, parseTree } from './action-result.ts';
import { ProtobufError } from './protobuf.ts';

const named = (text: string) => ({ sha256: sha256(text), bytes: text.length });

test('all that an entry names is found, past fields that nobody knows', () => {
  const folder = message([1, message([1, 'f'], [2, digest('f')])], [2, message([1, 'd'], [2, digest('dd')])]);
  const entry = actionResult(
    ['a', 'bc'],
    [3, message([1, 'tree'], [3, digest('tree')], [5, digest('not asked')])],
    [3, message([1, 'root'], [5, digest('root')])],
    [6, digest('out')],
    [8, digest('err')],
    [5, 'raw'],
    [99, 'unknown'],
    [98, 7],
  );
  expect(parseActionResult(entry)).toEqual({
    files: ['a', 'bc', 'out', 'err'].map(named),
    trees: [named('tree')],
    directories: [named('root')],
  });
  expect(parseDirectory(folder)).toEqual({ files: [named('f')], directories: [named('dd')] });
  expect(parseTree(message([1, folder], [2, folder]))).toEqual([named('f'), named('f')]);
  expect(parseActionResult(new Uint8Array())).toEqual({ files: [], trees: [], directories: [] });
});

test('other bytes are an error of their own, wherever they are cut or changed', () => {
  const whole = actionResult(['a'], [6, digest('out')], [3, message([3, digest('tree')])]);
  const random = makeRandom(7);
  let refused = 0;
  for (let round = 0; round < 2_000; round += 1) {
    const bytes = whole.slice(0, random.below(whole.length + 1));
    if (bytes.length > 0 && random.chance(0.7)) bytes[random.below(bytes.length)] = random.below(256);
    try {
      parseActionResult(bytes);
    } catch (error) {
      if (!(error instanceof ProtobufError)) throw error;
      refused += 1;
    }
  }
  expect(refused).toBeGreaterThan(500);
  const wrong = [
    message([2, message([1, 'path'])]),
    message([2, message([2, message([1, 'A'.repeat(64)], [2, 1])])]),
    message([3, message([1, 'path'])]),
    message([4, 'text']),
    new Uint8Array([0x0b]),
    new Uint8Array([0x00, 0x00]),
    new Uint8Array(11).fill(0xff),
  ];
  for (const bytes of wrong) expect(() => parseActionResult(bytes)).toThrow(ProtobufError);
});
