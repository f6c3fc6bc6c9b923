/**
 * Paths as a person gave them, made absolute as the kernel would follow them: `..` is the folder above what a link leads to, and a path
 * that ends with `/` or `/.` is the folder that a link leads to. Functions that work on the text alone know nothing of links. Where the
 * runtime cannot follow a path truly, it is refused, never bent.
 */
import { lstatSync, realpathSync, type Stats, statSync } from 'node:fs';

/** The runtime's replacement for bytes that are not UTF-8, in an argument or in the name of the working directory. */
const REPLACEMENT = '\ufffd';

/** The path cannot be used as it was given. `message` is one line. */
export class GivenPathError extends Error {
  override readonly name = 'GivenPathError';
}

export interface GivenPathOptions {
  /** It is to be a folder, which is made if it is missing. */
  readonly isMadeFolder?: boolean | undefined;
}

/** A path whose text is not enough: it goes up, ends so that it must be a folder, or is not what was given. */
const NEEDS_FOLLOWING = /(?:^|\/)\.\.(?:\/|$)|\/\.?$|^\.$|\ufffd/;
/** Made as folders, the parts of a URL would keep its password as a name. */
const URL_START = /^[a-z][a-z0-9+.-]*:\/\//i;
const MUST_BE_FOLDER = /(?:^|\/)\.{0,2}$/;

/** Absolute, without `.`, `..` and an end slash. The last part may be a link, unless a slash follows. Throws GivenPathError. */
export function resolveGivenPath(path: string, { isMadeFolder = false }: GivenPathOptions = {}): string {
  if (path === '') throw new GivenPathError('an empty path names nothing; write . for the working directory');
  if (isMadeFolder && URL_START.test(path))
    throw new GivenPathError(`${path} is a URL, where a folder is expected: give its path`);
  const whole = path.startsWith('/') ? path : `${readWorkingDirectory(path)}/${path}`;
  let absolute = '';
  for (const part of whole.split('/')) {
    if (part === '..') absolute = parentOf(absolute, path);
    else if (part !== '' && part !== '.') absolute = `${absolute}/${part}`;
  }
  if (MUST_BE_FOLDER.test(path)) absolute = followToFolder(absolute, path, isMadeFolder);
  refuseReplaced(path, absolute);
  return absolute || '/';
}

/** As it was given, where that is enough for the system and for functions that work on its text; else absolute. */
export function settleGivenPath(path: string, options: GivenPathOptions = {}): string {
  return NEEDS_FOLLOWING.test(path) || URL_START.test(path) ? resolveGivenPath(path, options) : path;
}

function parentOf(folder: string, path: string): string {
  const real = followToFolder(folder, path, false);
  return real.slice(0, Math.max(0, real.lastIndexOf('/')));
}

function followToFolder(at: string, path: string, mayBeMissing: boolean): string {
  // The root of the file system.
  if (at === '') return at;
  const found = lookAt(at, path);
  if (found === undefined) {
    if (mayBeMissing) return at;
    throw new GivenPathError(`${path}: ${at} does not exist; check the path`);
  }
  if (found.isDirectory()) return at;
  const real = found.isSymbolicLink() ? followLink(at, path) : at;
  if (lookAt(real, path)?.isDirectory()) return real === '/' ? '' : real;
  throw new GivenPathError(`${path}: ${at} is not a folder, so nothing is in it or above it; check the path`);
}

function lookAt(at: string, path: string): Stats | undefined {
  try {
    return lstatSync(at, { throwIfNoEntry: false });
  } catch (error) {
    throw cannotFollow(at, path, error);
  }
}

/** By the system: the runtime's own function works on the text. */
function followLink(at: string, path: string): string {
  try {
    return realpathSync.native(at);
  } catch (error) {
    throw cannotFollow(at, path, error);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'is a link that leads nowhere',
  ENOTDIR: 'is below a file',
  EACCES: 'cannot be looked at: permission denied',
  ELOOP: 'is a link that leads to itself',
};

function cannotFollow(at: string, path: string, cause: unknown): GivenPathError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  return new GivenPathError(
    `${path}: ${at} ${REASONS[code] ?? `cannot be followed (${code})`}; check the path`,
    {
      cause,
    },
  );
}

/** The working directory, proven to be the process's own: a name that is not UTF-8 comes out as another folder's. */
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
