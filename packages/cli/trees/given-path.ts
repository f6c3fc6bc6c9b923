/** Paths as they were given. Apart from other files, because most commands do without the code for trees on disk. */
import {
  GivenPathError,
  type GivenPathOptions,
  resolveGivenPath,
  settleGivenPath,
} from '@holdfast/files/common';
import type { Command } from 'commander';
import { CliError } from '../cli-error.ts';

/** The absolute path of one that was given. Throws CliError, before anything is touched. */
export function resolvePath(path: string, options: GivenPathOptions = {}): string {
  return explaining(() => resolveGivenPath(path, options));
}

/** Settles paths among a command's options before the command sees them: changed text would mean another place. Throws CliError. */
export function settlePaths(command: Command): void {
  for (const option of command.options) {
    const name = option.attributeName();
    const value: unknown = command.getOptionValue(name);
    const kind = PATH_VALUE.exec(option.flags)?.[1];
    if (kind === undefined || typeof value !== 'string' || value === '') continue;
    command.setOptionValue(name, settle(value, kind === 'dir'));
  }
  const { HOLDFAST_DATA: data } = process.env;
  if (data) process.env.HOLDFAST_DATA = settle(data, true);
}

/** Options that are followed by a folder, or by a file. */
const PATH_VALUE = /<(dir|file|private\.jwk|public\.json)>/;

function settle(path: string, isMadeFolder: boolean): string {
  return explaining(() => settleGivenPath(path, { isMadeFolder }));
}

function explaining(work: () => string): string {
  try {
    return work();
  } catch (error) {
    throw error instanceof GivenPathError ? new CliError(error.message, { cause: error }) : error;
  }
}
