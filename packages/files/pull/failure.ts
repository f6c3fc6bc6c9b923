/** Explains a refusal of the system during a pull, and what to do. */
import { formatPath, PullTargetError, type TreePath } from '@holdfast/client/internal';

export function shownPath(base: string, path: TreePath | undefined): string {
  return path === undefined ? base : `${base.replace(/\/$/, '')}/${formatPath(path)}`;
}

/** `what` says what could not be done. */
export function explain(error: unknown, what: string): PullTargetError {
  if (error instanceof PullTargetError) return error;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  const reason = REASONS[code] ?? (error instanceof Error ? error.message : String(error));
  return new PullTargetError(`${what}: ${reason}`, { cause: error });
}

const REASONS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied; check owner and mode',
  EPERM: 'not permitted; check owner and mode, and that the file system can hold it',
  ENOSPC:
    'the disk is full; free some space, or files if it can hold no more of them, and run the same command again',
  EDQUOT: 'the quota is used up; free some space and run the same command again',
  EROFS: 'the file system is read-only; choose another place',
  ENAMETOOLONG: 'this file system takes no name that long; pull to another one',
  EILSEQ: 'this file system takes no name with these bytes; pull to another one',
  EINVAL: 'this file system takes no such name; pull to another one',
  ENOENT: 'it has gone meanwhile; run the same command again',
  EMFILE: 'too many files are open; raise the limit (ulimit -n)',
};
