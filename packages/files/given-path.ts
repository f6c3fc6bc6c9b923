/** Paths as a person gave them, made absolute: where the runtime cannot do that truly, they are refused, never bent. */
import { lstatSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

/** What the runtime makes of bytes that are not UTF-8, in an argument or in the name of the working directory. */
const REPLACEMENT = '\ufffd';

/** The path cannot be used as it was given. `message` is one line. */
export class GivenPathError extends Error {
  override readonly name = 'GivenPathError';
}

/** Throws GivenPathError; nothing is touched. */
export function resolveGivenPath(path: string): string {
  if (path === '') throw new GivenPathError('an empty path names nothing; write . for the working directory');
  const absolute = path.startsWith('/') ? resolve(path) : resolve(readWorkingDirectory(path), path);
  refuseReplaced(path, absolute);
  return absolute;
}

/**
 * The working directory as the runtime names it, proven to be the one that the process is in: a name that is not UTF-8
 * comes out as the name of another folder, that of a removed folder as no name or an arbitrary one.
 */
function readWorkingDirectory(path: string): string {
  try {
    const folder = process.cwd();
    const [named, present] = [statSync(folder, { bigint: true }), statSync('.', { bigint: true })];
    if (named.ino === present.ino && named.dev === present.dev) return folder;
  } catch {
    // Said below: whatever fails here, the folder cannot be named.
  }
  throw new GivenPathError(
    `${path} is relative, and the working directory was removed or its name is not UTF-8; change to another folder, or give an absolute path`,
  );
}

function refuseReplaced(path: string, absolute: string): void {
  if (!path.includes(REPLACEMENT)) return;
  const after = absolute.indexOf('/', absolute.lastIndexOf(REPLACEMENT));
  if (lstatSync(after === -1 ? absolute : absolute.slice(0, after), { throwIfNoEntry: false })) return;
  throw new GivenPathError(
    `${path} does not exist; a name that is not UTF-8 cannot be given as an argument: rename it, or name the folder it is in`,
  );
}
