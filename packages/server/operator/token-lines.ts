/** The format of a file of operator tokens: a single token, or one line per token. */
import { parseInstant } from '@holdfast/protocol';
import { sha256Hex } from '../core/signer.ts';
import { ConfigError } from '../errors.ts';
import { RIGHTS, type Right } from './rights.ts';

/** A shorter token could be guessed. */
const TOKEN_LENGTH_MIN = 32;
const TOKEN_LENGTH_MAX = 4096;
const NAME_LENGTH_MAX = 128;
const PRINTABLE = /^[\x21-\x7e]+$/;
const UNTIL = 'until=';
/** the name of a token that stands alone in its file */
export const LONE_NAME = 'operator';

export interface TokenEntry {
  readonly name: string;
  /** SHA-256 of the token, hexadecimal: comparing digests does not reveal how much of a token was right */
  readonly digest: string;
  readonly rights: readonly Right[];
  /** ms since the epoch; undefined if it does not expire */
  readonly until: number | undefined;
}

/** @throws ConfigError, which quotes nothing of the file */
export function parseTokenLines(file: string, text: string): readonly TokenEntry[] {
  const lines = text
    .split('\n')
    .map((line, index) => ({ number: index + 1, words: wordsOf(line) }))
    .filter(({ words }) => words.length > 0);
  const [first] = lines;
  const refuse = (number: number, rule: string): never => {
    throw new ConfigError(`the operators' token file ${file}, line ${number}: ${rule}`);
  };
  if (first === undefined) return refuse(1, 'there is no token; make one with openssl rand -hex 32');
  if (lines.length === 1 && first.words.length === 1) {
    const [token = ''] = first.words;
    return [
      {
        name: LONE_NAME,
        digest: digestOfUsable(token, first.number, refuse),
        rights: ['all'],
        until: undefined,
      },
    ];
  }
  const entries: TokenEntry[] = [];
  for (const { number, words } of lines) {
    const entry = parseLine(words, number, refuse);
    if (entries.some(({ name }) => name === entry.name))
      refuse(number, 'the name stands in a line before it too');
    if (entries.some(({ digest }) => digest === entry.digest))
      refuse(number, 'the token stands in a line before it too');
    entries.push(entry);
  }
  return entries;
}

type Refuse = (number: number, rule: string) => never;

/** The words before a comment (`#`). */
function wordsOf(line: string): readonly string[] {
  const words = line.split(/\s+/).filter((word) => word !== '');
  const comment = words.findIndex((word) => word.startsWith('#'));
  return comment === -1 ? words : words.slice(0, comment);
}

function parseLine(words: readonly string[], number: number, refuse: Refuse): TokenEntry {
  const [name = '', token, ...more] = words;
  if (token === undefined)
    return refuse(number, 'a line is NAME TOKEN [read|apps|spaces|backup|all]… [until=TIME]');
  if (name.length > NAME_LENGTH_MAX || !PRINTABLE.test(name))
    refuse(number, `a name has 1 to ${NAME_LENGTH_MAX} printable characters`);
  const digest = digestOfUsable(token, number, refuse);
  const rights: Right[] = [];
  let until: number | undefined;
  for (const word of more) {
    const right = RIGHTS.find((each) => each === word);
    if (right !== undefined) rights.push(right);
    else if (!word.startsWith(UNTIL))
      refuse(
        number,
        `after the token come rights (${RIGHTS.join(', ')}) and ${UNTIL}TIME; there is another word`,
      );
    else if (until !== undefined) refuse(number, `${UNTIL} is given twice`);
    else {
      until = parseInstant(word.slice(UNTIL.length));
      if (until === undefined)
        refuse(number, `${UNTIL} takes a time in RFC 3339, such as ${UNTIL}2026-12-31T23:59:59Z`);
    }
  }
  return { name, digest, rights: rights.length === 0 ? ['all'] : rights, until };
}

function digestOfUsable(token: string, number: number, refuse: Refuse): string {
  const isUsable =
    token.length >= TOKEN_LENGTH_MIN && token.length <= TOKEN_LENGTH_MAX && PRINTABLE.test(token);
  if (isUsable) return sha256Hex(token);
  return refuse(
    number,
    `a token has ${TOKEN_LENGTH_MIN} to ${TOKEN_LENGTH_MAX} printable characters; make one with openssl rand -hex 32`,
  );
}
