/** Help that fits the terminal: paragraphs filled, lists with their second column, examples that can still be pasted. */
import { expect, test } from 'bun:test';
import { findColumns, wrapHelp } from './wrap-help.ts';

test('what fits stays as it is written', () => {
  const text = 'One line.\nAnother one.\n\n  holdfast usage   shows it\n';
  expect(wrapHelp(text, 40)).toBe(text);
});

test('a paragraph is filled anew, a heading is none of it', () => {
  expect(
    wrapHelp('What a push stores is said here:\nfirst this and\nthen that, whatever it may be.', 20),
  ).toBe('What a push stores\nis said here:\nfirst this and then\nthat, whatever it\nmay be.');
});

test('the second column of a list stays one, and an example gets continuation lines', () => {
  expect(wrapHelp('  push x   edit something, and push again', 40)).toBe(
    '  push x   edit something, and push\n           again',
  );
  expect(wrapHelp('  holdfast app add walk --issuer https://a.example', 34)).toBe(
    '  holdfast app add walk --issuer \\\n      https://a.example',
  );
});

test('a word that is longer than a line is not cut, and a narrow or unknown width has a least', () => {
  expect(wrapHelp('abcdefghijklmnop q', 10)).toBe('abcdefghijklmnop\nq');
  expect([
    findColumns({}),
    findColumns({ isTTY: true, columns: 132 }),
    findColumns({ isTTY: true, columns: 5 }),
  ]).toEqual([80, 132, 40]);
});
