/** Paths as they were given. Apart from other files, because most commands do without the code for trees on disk. */
import { GivenPathError, resolveGivenPath } from '@holdfast/files';
import { CliError } from '../cli-error.ts';

/** The absolute path of one that was given. Throws CliError, before anything is touched. */
export function resolvePath(path: string): string {
  try {
    return resolveGivenPath(path);
  } catch (error) {
    throw error instanceof GivenPathError ? new CliError(error.message, { cause: error }) : error;
  }
}
