/** Explains disk errors to the operator of a backup. */
import { explainFolderError } from '../deployment/data-folder.ts';
import { ServeError } from '../errors.ts';

interface Place {
  /** as it is named in the message */
  readonly path: string;
  /** a clause that says which data is unchanged */
  readonly kept: string;
}

/** Turns a disk error into one line with advice; returns any other error unchanged. */
export function explainDiskError(error: unknown, { path, kept }: Place): unknown {
  const code = (error as { code?: unknown } | null)?.code;
  if (error instanceof ServeError || typeof code !== 'string' || !/^E[A-Z0-9]+$/.test(code)) return error;
  const found = (error as { path?: unknown }).path;
  const named = typeof found === 'string' && !found.startsWith('/proc/') ? found : path;
  return new ServeError(`${describe(code, named)}; ${kept}`, { cause: error });
}

function describe(code: string, path: string): string {
  switch (code) {
    case 'ENOSPC':
      return `the disk of ${path} is full (or has no inodes left): free some space there, or choose another disk`;
    case 'EDQUOT':
      return `the disk quota for ${path} is used up: raise it, or free some space`;
    case 'EACCES':
    case 'EPERM':
      return `${path} cannot be read or written by this user: check the owner and mode of the folder and of what is in it`;
    case 'EROFS':
      return `${path} is on a read-only file system: remount it, or choose another place`;
    case 'EIO':
      return `the disk of ${path} reports an I/O error: check the disk`;
    case 'ENOENT':
      return `something in ${path} went away meanwhile: let nobody else change it, and run the command again`;
    case 'ENOTDIR':
    case 'EEXIST':
    case 'EISDIR':
      return `${path} is no folder, or something in it is not what Holdfast made: choose another folder`;
    case 'ELOOP':
    case 'ENAMETOOLONG':
      return `${path} cannot be opened (${code}): choose another path`;
    case 'EMFILE':
    case 'ENFILE':
      return `too many open files: raise the limit (ulimit -n)`;
    default:
      return `the system refuses work in ${path} (${code}): check its disk`;
  }
}

export function explainSource(dataDir: string, error: unknown): unknown {
  const explained = explainFolderError(dataDir, error);
  return explained === error
    ? explainDiskError(error, { path: dataDir, kept: 'the former backup is unchanged' })
    : explained;
}

export const isOfDatabase = (error: unknown): boolean =>
  String((error as { code?: unknown } | null)?.code).startsWith('SQLITE_');
