/** The token alone in a file, which may be written anew while a job runs. */
import { closeSync, fstatSync, openSync, readFileSync, statSync } from 'node:fs';
import { describeExposure, findExposure } from '@holdfast/protocol';
import { CliError } from '../cli-error.ts';
import { describeFileError } from '../files.ts';

/** Its role in messages. */
export const TOKEN_FILE = 'the token file';

/** How long a token that was read is used before its file is looked at again. */
const TOKEN_REREAD_MS = 1_000;

/**
 * A job may outlive its token: a new token in the file keeps it going. A token that the server refused is looked
 * for in the file at once. `now`: ms of a clock that never steps back.
 */
export function rereadToken(
  file: string,
  first: string,
  now = () => performance.now(),
): (refused?: string) => string {
  let token = first;
  let readAt = now();
  return (refused) => {
    if (token === refused || now() - readAt > TOKEN_REREAD_MS) {
      token = findNewToken(file) ?? token;
      readAt = now();
    }
    return token;
  };
}

function findNewToken(path: string): string | undefined {
  let exposure: string | undefined;
  try {
    // A pipe, such as that of <(holdfast token …), gives its token once.
    if (!statSync(path).isFile()) return undefined;
    const file = openSync(path, 'r');
    try {
      exposure = findExposure(path, fstatSync(file), process.geteuid?.());
      // A shell empties the file (`holdfast token … > FILE`) before there is a new one to write: until then the old one is good.
      if (exposure === undefined) return readFileSync(file, 'utf8').trim() || undefined;
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new CliError(`${TOKEN_FILE} ${path} cannot be read: ${describeFileError(error)}`);
  }
  throw new CliError(describeExposure(TOKEN_FILE, path, exposure));
}
