/** Explains a wrong command line in the words of a person instead of those of the parser. */
import type { Command } from 'commander';
import { hideSecrets } from './terminal/hide-secrets.ts';
import { printable } from './terminal/output.ts';

/** One line for what the parser of `command` says, which ends with where to look. */
export function explainUsage(text: string, command: Command): string {
  const said = text.trim().replace(/^error: /, '');
  // A value may hold newlines itself.
  const [, what = '', meant] = /^(.*?)(?:\n(\(Did you mean [^\n]*\)))?$/s.exec(said) ?? [];
  const word = command.parent === null ? /^unknown command '(\w+)'$/.exec(what)?.[1] : undefined;
  const ours = word !== undefined && Object.hasOwn(OTHER_WORDS, word) ? OTHER_WORDS[word] : undefined;
  if (ours !== undefined) return printable(`${what}: ${ours}; see holdfast --help`);
  const hint = meant === undefined ? '' : ` ${meant}`;
  return hideSecrets(printable(`${reword(what)}${hint}; see ${nameOf(command)} --help`));
}

/** As it is typed: `holdfast bundle create`. */
export function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}

/** Names that other tools use, and their equivalents here. */
const OTHER_WORDS: Readonly<Record<string, string>> = {
  init: 'a server makes its data folder itself: holdfast serve; connect to one with: holdfast login NAME',
  prune: 'space is freed by: holdfast gc --all; what is to go is said by: holdfast forget NAME --keep-last N',
  stats: 'what a Space holds is shown by: holdfast usage; what trees take by: holdfast du NAME',
  list: 'names are listed by: holdfast snapshots; directories by: holdfast ls NAME',
  whoami: 'the connections that are kept are listed by: holdfast profiles',
  clone: 'a tree is brought here by: holdfast pull NAME DIR',
  checkout: 'a tree is brought here by: holdfast pull NAME DIR',
  download: 'a tree is brought here by: holdfast pull NAME DIR',
  upload: 'a folder is stored by: holdfast push DIR --name NAME',
  add: 'a folder is stored by: holdfast push DIR --name NAME',
  create: 'a folder is stored by: holdfast push DIR --name NAME',
  find: "a tree's paths are listed by: holdfast tree NAME; names by: holdfast snapshots",
  log: 'the snapshots of a name are listed by: holdfast snapshots NAME',
  sync: 'names are mirrored to another server by: holdfast copy --all --to PROFILE',
  rm: 'a snapshot goes by: holdfast forget; a file of a name by: holdfast edit NAME rm PATH',
  dump: 'a file of a tree is written out by: holdfast cat NAME/PATH',
  fsck: 'a tree is proven by: holdfast verify NAME; a deployment by: holdfast check',
};

const REWORDINGS: readonly (readonly [RegExp, (...parts: string[]) => string])[] = [
  [
    /^command-argument value '(.*)' is invalid for argument '(.*?)'\. (.*)$/s,
    (_, value, name, reason) => refuse(name.toUpperCase(), value, reason),
  ],
  [
    /^option '(?:-\w, )?(--[\w-]+).*?' (?:argument|value) '(.*)' (?:from env '.*' )?is invalid\. (.*)$/s,
    (_, flag, value, reason) => refuse(flag, value, reason),
  ],
  [/^missing required argument '(.*)'$/, (_, name) => `${name.toUpperCase()} is missing`],
  [
    /^required option '(?:-\w, )?(--[\w-]+) ?(.*)' not specified$/,
    (_, flag, value) => `${flag} is missing; give ${flag}${value === '' ? '' : ` ${upper(value)}`}`,
  ],
  [
    /^option '(?:-\w, )?(--[\w-]+) ?(.*)' argument missing$/,
    (_, flag, value) => `${flag} needs a value: ${flag} ${upper(value)}`,
  ],
  [
    /^option '(?:-\w, )?(--[\w-]+).*' cannot be used with option '(?:-\w, )?(--[\w-]+).*'$/,
    (_, one, other) => `${one} cannot be used with ${other}; give one of them`,
  ],
  [
    /^too many arguments(?: for '.*')?\. Expected (\d+) arguments? but got (\d+)(?:: .*)?\.$/,
    (_, wanted, got) =>
      `too many arguments: ${got} where ${wanted === '0' ? 'none is' : `${wanted} is the most that is`} taken`,
  ],
];

function reword(what: string): string {
  for (const [pattern, words] of REWORDINGS) {
    const match = pattern.exec(what);
    if (match !== null) return words(...(match as string[]));
  }
  return what;
}

/** The parsers of values end what they say with a full stop, and begin it as a sentence. */
function refuse(name: string, value: string, reason: string): string {
  const plain = reason.replace(/(?<!\.)\.$/, '');
  const isSentence = /^[A-Z][a-z]/.test(plain);
  return `${name} ${JSON.stringify(value)} cannot be used: ${isSentence ? plain.charAt(0).toLowerCase() + plain.slice(1) : plain}`;
}

function upper(placeholder: string): string {
  return placeholder.replace(/[<>[\]]/g, '').toUpperCase();
}
