/**
 * Entries that cannot be stored. They are collected during the scan and told together, so that a user can mend all of them.
 * The SDK gives the types of this file to projects that have none of Node: it names no Buffer, nor a file that does.
 */
import { shortenText } from '@holdfast/client/push';
import { bytesOf, displayName } from '../byte-names.ts';
import type { ByteString } from '../byte-string.ts';

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
    const named = problems.slice(0, 10).map(({ path, reason }) => `${shortenText(path)} (${reason})`);
    const rest = total > named.length ? ` and ${total - named.length} more` : '';
    const what = total === 1 ? 'one entry cannot be stored' : `${total} entries cannot be stored`;
    super(`${what}: ${named.join(', ')}${rest}`);
    this.problems = problems;
  }
}

/** A file of patterns cannot be read, so nobody knows what of its folder is not to be stored. */
export class PatternFileError extends ScanError {
  constructor(path: string, reason: string) {
    super([{ path, reason }], 1);
  }

  /** Why the folder is left out. */
  get why(): string {
    const [{ path, reason } = { path: '', reason: '' }] = this.problems;
    return `its ignore file ${path} cannot be read (${reason})`;
  }
}

/** The tree kept changing while it was pushed. `message` is one line that names where. */
export class TreeBusyError extends Error {
  override readonly name = 'TreeBusyError';
}

/** A push was given a folder that Holdfast itself made: see `describeOwnFolder`. */
export class OwnFolderError extends Error {
  override readonly name = 'OwnFolderError';

  constructor(path: string, kind: string) {
    super(
      `${path} is ${kind}: it holds keys and the data of all tenants, so it is never pushed; name something else`,
    );
  }
}

export interface LeftOut {
  /** for people, relative to the root */
  readonly path: string;
  /** the same, byte for byte */
  readonly pathBytes: Uint8Array;
  readonly why: string;
}

export class ScanProblems {
  /** true: an entry that cannot be stored ends the scan, instead of being left out. */
  readonly isStrict: boolean;
  readonly #kept: LeftOut[] = [];
  #total = 0;

  constructor(isStrict: boolean) {
    this.isStrict = isStrict;
  }

  add(path: ByteString, why: string): void {
    this.#total += 1;
    if (this.isStrict && this.#kept.length >= 100) return;
    this.#kept.push({ path: displayName(path), pathBytes: bytesOf(path), why });
  }

  /** Throws `error` again unless it is about the entry itself. */
  addError(path: ByteString, error: unknown): void {
    if (error instanceof PatternFileError) this.add(path, error.why);
    else if (isSystemError(error) && !isShortage(error)) this.add(path, describeSystemError(error));
    else throw error;
  }

  get leftOut(): readonly LeftOut[] {
    return this.#kept;
  }

  /** Throws ScanError when there are any and the scan is strict. */
  throwIfStrict(): void {
    if (this.isStrict && this.#total > 0) this.throw();
  }

  throw(): never {
    const problems = this.#kept.map(({ path, why }) => ({ path, reason: why }));
    throw new ScanError(problems, this.#total);
  }
}

export function describeSystemError(error: unknown): string {
  const code = codeOf(error);
  switch (code) {
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ELOOP':
    case 'ENXIO':
      return GONE;
    case 'ENAMETOOLONG':
      return 'its path is longer than the system allows: push a folder below, or shorten names';
    case 'EIO':
      return 'the disk failed to read it';
    case 'EMFILE':
    case 'ENFILE':
      return 'too many files are open; raise the limit with ulimit -n';
    default:
      // The path in the message is one through a descriptor.
      return error instanceof Error ? error.message.replace(/, \w+ '.*$/s, '') : String(error);
  }
}

/** The problem of an entry that was listed and is gone when it is looked at or read. */
export const GONE = 'it went away while the tree was read';

/** It says nothing of the entry: the process or the system has run out of something, and every other entry would fail too. */
export function isShortage(error: unknown): boolean {
  return ['EMFILE', 'ENFILE', 'ENOMEM'].includes(codeOf(error));
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** An error of a system call, as against one of ours. Bun itself refuses a path that is too long, and names no call then. */
export function isSystemError(error: unknown): boolean {
  return error instanceof Error && ('syscall' in error || codeOf(error) === 'ENAMETOOLONG');
}
