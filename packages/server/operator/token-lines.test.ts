import { expect, test } from 'bun:test';
import { sha256Hex } from '../core/signer.ts';
import { ConfigError } from '../errors.ts';
import { parseTokenLines } from './token-lines.ts';

const A = 'a'.repeat(32);
const B = 'b'.repeat(40);

test('a file holds one token alone, or a line for each', () => {
  const lone = { name: 'operator', digest: sha256Hex(A), rights: ['all'] as const, until: undefined };
  for (const text of [A, `${A}\n`, `# mine\n\n  ${A} # until I leave\r\n`])
    expect(parseTokenLines('f', text)).toEqual([lone]);
  const until = Date.UTC(2030, 0, 2, 3, 4, 5);
  expect(
    parseTokenLines('f', `alice ${A}\n# all of it\nbob ${B} read apps until=2030-01-02T03:04:05Z #x`),
  ).toEqual([
    { ...lone, name: 'alice' },
    { name: 'bob', digest: sha256Hex(B), rights: ['read', 'apps'], until },
  ]);
  expect(parseTokenLines('f', `bob ${B} until=2030-01-02T04:04:05+01:00`)).toEqual([
    { name: 'bob', digest: sha256Hex(B), rights: ['all'], until },
  ]);
});

test('what cannot be understood is refused with its line, and nothing of the file is quoted', () => {
  for (const [text, rule] of [
    ['', 'line 1: there is no token'],
    ['# only this', 'line 1: there is no token'],
    [A.slice(1), 'line 1: a token has 32'],
    [`${A}\n${B}`, 'line 1: a line is NAME TOKEN'],
    [`alice ${A.slice(1)}`, 'line 1: a token has 32'],
    [`alice ${A}\nalice ${B}`, 'line 2: the name stands'],
    [`alice ${A}\n\nbob ${A}`, 'line 3: the token stands'],
    [`alice ${A} write`, 'line 1: after the token come rights (read, apps, spaces, backup, all)'],
    [`alice ${A} READ`, 'line 1: after the token'],
    [`alice ${A} until=tomorrow`, 'line 1: until= takes a time'],
    [`alice ${A} until=2030-02-30T00:00:00Z`, 'line 1: until= takes a time'],
    [`alice ${A} until=2030-01-01T00:00:00Z until=2031-01-01T00:00:00Z`, 'line 1: until= is given twice'],
    [`alice é${A}`, 'line 1: a token has 32'],
  ] as const) {
    let message = '';
    try {
      parseTokenLines('/etc/tokens', text);
    } catch (error) {
      if (error instanceof ConfigError) ({ message } = error);
    }
    expect([text, message]).toEqual([text, expect.stringContaining(`/etc/tokens, ${rule}`)]);
    expect(message).not.toMatch(/a{9}|b{9}|alice|bob|tomorrow/);
  }
});
