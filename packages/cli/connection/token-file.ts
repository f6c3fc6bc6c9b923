/** The token alone in a file, which may be written anew while a job runs. */
import { statSync } from 'node:fs';
import { CliError } from '../cli-error.ts';
import { describeFileError, readSecretNow } from '../files.ts';

/** Its role in messages. */
export const TOKEN_FILE = 'the token file';

/** A new token in the file keeps a job going. One that the server refused is looked for at once. `now`: ms, never steps back. */
export function rereadToken(
  file: string,
  first: string,
  now = () => performance.now(),
): (refused?: string) => string {
  let token = first;
  let readAt = now();
  return (refused) => {
    if (token === refused || now() - readAt > 1_000) {
      token = findNewToken(file) ?? token;
      readAt = now();
    }
    return token;
  };
}

function findNewToken(path: string): string | undefined {
  try {
    // A pipe, such as that of <(holdfast token …), gives its token once: it is not opened again.
    if (!statSync(path).isFile()) return undefined;
    // A shell empties the file (`holdfast token … > FILE`) before there is a new one to write: until then the old one is good.
    return readSecretNow(path, TOKEN_FILE)?.trim() || undefined;
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`${TOKEN_FILE} ${path} cannot be read: ${describeFileError(error)}`);
  }
}
