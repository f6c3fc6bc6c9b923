/** The output of a failed file that the runner shows once more (tools/failing-output.mjs). */
import { expect, test } from 'bun:test';
import { cutMiddle, findFailingOutput } from '../tools/failing-output.mjs';

test('failed tests, uncaught errors and the end of an output are found, without colours and CI commands', () => {
  const unhandled = ['# Unhandled error between tests', '-'.repeat(31), 'error: nobody', '-'.repeat(31)];
  const output = [
    '::group::a.test.ts:',
    'noise',
    '(pass) one [0.10ms]',
    ...unhandled,
    'more noise',
    '(pass) two [0.10ms]',
    '\u001b[31merror: wrong\u001b[0m',
    '::error file=a.test.ts,line=4::error: wrong',
    '(fail) three [0.10ms]',
    '(fail) four [20.00ms]',
    '  ^ this test timed out after 20ms.',
    '(skip) five',
    'still noise',
    '(pass) six',
    ' 3 pass',
  ];
  expect(findFailingOutput(output.join('\n')).split('\n')).toEqual([
    ...unhandled,
    'error: wrong',
    '(fail) three [0.10ms]',
    '(fail) four [20.00ms]',
    '  ^ this test timed out after 20ms.',
    '(skip) five',
    ' 3 pass',
  ]);
});

test('a text that is too long keeps its beginning and end', () => {
  const text = `${'a'.repeat(60)}${'b'.repeat(60)}`;
  expect(cutMiddle(text, 120)).toBe(text);
  expect(cutMiddle(text, 20)).toBe(`${'a'.repeat(10)}\n[… 100 characters left out …]\n${'b'.repeat(10)}`);
});
