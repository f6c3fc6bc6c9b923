/** Words that can follow each command, read from the tree of commands, so completion knows exactly the words of the parser. */
import type { Argument, Command, Option } from 'commander';
import { parseProfileName } from '../connection/profiles.ts';
import { findKnownNames } from '../options.ts';

export type Values =
  | { readonly kind: 'anything' | 'files' | 'profiles' }
  | { readonly kind: 'words'; readonly words: readonly string[] };

interface OptionWords {
  /** with its dashes */
  readonly long: string;
  readonly short: string | undefined;
  readonly description: string;
  /** undefined: it takes none */
  readonly values: Values | undefined;
}

export interface CommandWords {
  /** the words before, joined by spaces; empty for `holdfast` itself */
  readonly path: string;
  readonly commands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly OptionWords[];
  readonly argument: Values;
}

/** `command` and all below it. */
export function listCommandWords(command: Command, path = ''): CommandWords[] {
  const below = command.commands.flatMap((sub) =>
    listCommandWords(sub, path === '' ? sub.name() : `${path} ${sub.name()}`),
  );
  const help: OptionWords = {
    long: '--help',
    short: '-h',
    description: 'show help',
    values: undefined,
  };
  const own: CommandWords = {
    path,
    commands: command.commands.map((sub) => ({ name: sub.name(), description: sub.description() })),
    options: [...command.options.flatMap(describeOption), help],
    argument: mergeValues(command.registeredArguments),
  };
  return [own, ...below];
}

function describeOption(option: Option): OptionWords[] {
  if (option.long === undefined || option.hidden) return [];
  const takesValue = option.required || option.optional;
  const values = takesValue ? valuesOf(option, option.flags) : undefined;
  return [{ long: option.long, short: option.short, description: option.description, values }];
}

/** The position of an argument is ignored: one argument that is a file makes files fit. */
function mergeValues(all: readonly Argument[]): Values {
  const found = all.map((argument) => valuesOf(argument, argument.name()));
  return found.find(({ kind }) => kind !== 'anything') ?? { kind: 'anything' };
}

function valuesOf({ argChoices, parseArg }: Pick<Option, 'argChoices' | 'parseArg'>, shown: string): Values {
  const words = argChoices ?? findKnownNames(parseArg);
  if (words !== undefined) return { kind: 'words', words };
  if (parseArg === parseProfileName) return { kind: 'profiles' };
  return {
    kind: /(?:^|<|\b)(?:file|dir|path|private\.jwk|public\.json)\b/.test(shown) ? 'files' : 'anything',
  };
}
