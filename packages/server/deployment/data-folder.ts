/** The data folder of the embedded engine: made private, held by one server at a time. */
import { Database, SQLiteError } from 'bun:sqlite';
import { accessSync, constants, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { ServeError } from '../errors.ts';

const FOLDER_MODE = 0o700;
const LOCK_NAME = 'lock.db';

export interface HeldDataFolder {
  /** Lets another server have it. The end of the process does the same, however it comes. */
  release(): void;
}

/** Makes the folder if it is missing and takes its lock. Throws ServeError. */
export function holdDataFolder(dataDir: string): HeldDataFolder {
  makeDataFolder(dataDir);
  return lockFolder(dataDir);
}

/** Makes the folder if it is missing, private to its owner. Throws ServeError. */
export function makeDataFolder(dataDir: string): void {
  try {
    mkdirSync(dataDir, { recursive: true, mode: FOLDER_MODE });
    if (!statSync(dataDir).isDirectory()) throw notAFolder(dataDir);
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw explainFolderError(dataDir, error);
  }
}

/** A database nobody refers to is closed by the garbage collector, and its lock with it: these stay until they are released. */
const HELD = new Set<Database>();

/**
 * An exclusive transaction that is never ended: the operating system drops it with the process, so that no stale lock can be
 * left behind. The database stays empty.
 */
function lockFolder(dataDir: string): HeldDataFolder {
  let database: Database | undefined;
  try {
    database = new Database(join(dataDir, LOCK_NAME), { create: true, readwrite: true });
    database.run('PRAGMA busy_timeout = 0');
    database.run('PRAGMA journal_mode = MEMORY');
    database.run('BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    if (error instanceof SQLiteError && (error.code ?? '').startsWith('SQLITE_BUSY')) {
      throw new ServeError(
        `the data folder ${dataDir} is in use by another holdfast server: stop that one, or choose another --data folder`,
      );
    }
    if (error instanceof SQLiteError && error.code === 'SQLITE_NOTADB') {
      throw new ServeError(
        `the lock ${join(dataDir, LOCK_NAME)} is damaged: it never holds anything, so remove it and start again`,
      );
    }
    throw explainFolderError(dataDir, error);
  }
  const held = database;
  HELD.add(held);
  return {
    release: () => {
      HELD.delete(held);
      held.close();
    },
  };
}

/** Of opening a database: its statements are ours, so it is the schema on the disk that one of them does not fit. */
const DAMAGE_CODE = /^SQLITE_(?:NOTADB|CORRUPT\w*|ERROR)$/;

function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** What the disk said about a data folder, as one line with advice. Errors that are no such thing come back unchanged. */
export function explainFolderError(dataDir: string, error: unknown): unknown {
  const code = codeOf(error) ?? codeOf((error as { cause?: unknown } | null)?.cause);
  if (code !== undefined && DAMAGE_CODE.test(code)) {
    return new ServeError(
      `a database in the data folder ${dataDir} is damaged (${(error as Error).message}): check the disk and restore a backup of the folder`,
    );
  }
  if (code === 'EIO' || (code !== 'SQLITE_IOERR_WRITE' && code?.startsWith('SQLITE_IOERR') === true)) {
    return new ServeError(`the disk of the data folder ${dataDir} reports an I/O error: check the disk`);
  }
  switch (code) {
    case 'EEXIST':
    case 'ENOTDIR':
      return notAFolder(dataDir);
    case 'EACCES':
    case 'EPERM':
    case 'SQLITE_CANTOPEN':
    case 'SQLITE_READONLY':
    case 'SQLITE_READONLY_DIRECTORY':
    case 'SQLITE_READONLY_CANTINIT':
      return new ServeError(
        `the data folder ${dataDir} cannot be written: check its owner and mode, or choose another --data folder`,
      );
    case 'ENOENT':
    case 'ENAMETOOLONG':
    case 'ELOOP':
      return new ServeError(
        `the data folder ${dataDir} cannot be made or opened there: choose another --data folder`,
      );
    case 'EROFS':
      return new ServeError(
        `the data folder ${dataDir} is on a read-only file system: remount it, or choose another --data folder`,
      );
    case 'ENOSPC':
    case 'EDQUOT':
    case 'SQLITE_FULL':
    case 'SQLITE_IOERR_WRITE':
      return new ServeError(
        `the disk of the data folder ${dataDir} is full: free some space and start again`,
      );
    default:
      return error;
  }
}

const notAFolder = (dataDir: string): ServeError =>
  new ServeError(`the data folder ${dataDir} is not a folder: choose another --data folder`);
