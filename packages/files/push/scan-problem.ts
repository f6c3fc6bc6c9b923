/** Entries that cannot be stored. They are collected during the scan and reported together, so that a user can mend all of them. */

/** How many are named; the rest are counted. */
const NAMED_MAX = 10;

export interface ScanProblem {
  /** for people, relative to the root */
  readonly path: string;
  readonly reason: string;
}

/** The tree cannot be stored as it is. Nothing was sent. `message` is one line. */
export class ScanError extends Error {
  override readonly name = 'ScanError';
  readonly problems: readonly ScanProblem[];

  constructor(problems: readonly ScanProblem[], total: number) {
    const named = problems.slice(0, NAMED_MAX).map(({ path, reason }) => `${shorten(path)} (${reason})`);
    const rest = total > named.length ? ` and ${total - named.length} more` : '';
    const what = total === 1 ? 'one entry cannot be stored' : `${total} entries cannot be stored`;
    super(`${what}: ${named.join(', ')}${rest}`);
    this.problems = problems;
  }
}

/** The tree kept changing while it was pushed. `message` is one line that names where. */
export class TreeBusyError extends Error {
  override readonly name = 'TreeBusyError';
}

/** A path of kilobytes would hide the message, so only its beginning and end are shown. */
const PATH_SHOWN_MAX = 240;

function shorten(path: string): string {
  const characters = [...path];
  if (characters.length <= PATH_SHOWN_MAX) return path;
  const [first, last] = [characters.slice(0, PATH_SHOWN_MAX / 2), characters.slice(-PATH_SHOWN_MAX / 2)];
  return `${first.join('')}…${last.join('')}`;
}

/** Problems that are kept; more are only counted. */
const KEPT_MAX = 100;

export class ScanProblems {
  readonly #kept: ScanProblem[] = [];
  #total = 0;

  add(path: string, reason: string): void {
    this.#total += 1;
    if (this.#kept.length < KEPT_MAX) this.#kept.push({ path, reason });
  }

  /** Throws ScanError when there are any. */
  throwIfAny(): void {
    if (this.#total > 0) throw new ScanError(this.#kept, this.#total);
  }
}

/** What a failed file operation means to a person. */
export function describeSystemError(error: unknown): string {
  const code = codeOf(error);
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'ENAMETOOLONG':
      return 'its path is longer than the system allows: push a folder below, or shorten names';
    case 'EIO':
      return 'the disk failed to read it';
    case 'EMFILE':
    case 'ENFILE':
      return 'too many files are open; raise the limit with ulimit -n';
    default:
      return error instanceof Error ? error.message : String(error);
  }
}

/** The entry went away, or became something else, between being seen and being read. */
export function isGone(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'].includes(codeOf(error));
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** An error of a system call, as against one of ours. Bun itself refuses a path that is too long, and names no call then. */
export function isSystemError(error: unknown): boolean {
  return error instanceof Error && ('syscall' in error || codeOf(error) === 'ENAMETOOLONG');
}
