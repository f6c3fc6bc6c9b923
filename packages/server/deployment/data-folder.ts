/** The data folder: private to its owner, and held by one server at a time. */
import { Database, SQLiteError, constants as sqlite } from 'bun:sqlite';
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  openSync,
  realpathSync,
  statfsSync,
  statSync,
} from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';
import { markDataFolder } from './folder-marks.ts';
import { assertFolderOwner } from './folder-owner.ts';
import { assertOwnFile, makeNamedFolder } from './held-folder.ts';

export const LOCK_NAME = 'lock.db';
const ROWS_NAME = 'holdfast.db';
const DATA_NAMES: readonly string[] = [ROWS_NAME, 'registry.db', 'secret.key'];
const BACKUP_MANIFESTS: readonly string[] = ['BACKUP', 'BUCKET'];

/** A link in the place of the lock would have the file that it names opened for writing. */
const LOCK_FLAGS = sqlite.SQLITE_OPEN_READWRITE | sqlite.SQLITE_OPEN_CREATE | sqlite.SQLITE_OPEN_NOFOLLOW;

/** Another process has the folder, for now. */
export class FolderInUse extends ServeError {
  override readonly name = 'FolderInUse';
}

export interface HeldDataFolder {
  /** Gives up the folder. The end of the process does the same, however it ends. */
  release(): void;
}

/** Makes the folder if missing and takes its lock. `withWorkers`: workers may join. `isBackup`: the caller marks it. Throws ServeError. */
export function holdDataFolder(
  dataDir: string,
  { withWorkers = false, isBackup = false } = {},
): HeldDataFolder {
  makeDataFolder(dataDir, { isBackup });
  const lock = openLock(dataDir, (database) => takeAlone(dataDir, database, withWorkers));
  if (!isBackup) markDataFolder(dataDir);
  return keepLock(lock);
}

/**
 * Called by a worker: from now on no other server can take the folder, even if the supervisor dies first. Afterwards the caller
 * checks that the supervisor is still alive: if it died before this call, another server may have the folder. Throws ServeError.
 */
export function joinDataFolder(dataDir: string): HeldDataFolder {
  const lock = openLock(dataDir, (database) => {
    database.run('BEGIN');
    // A transaction takes its lock when it reads.
    database.run('SELECT count(*) FROM sqlite_master');
  });
  return keepLock(lock);
}

/** Makes the folder if it is missing, private to its owner. Throws ServeError. */
export function makeDataFolder(dataDir: string, { isBackup = false } = {}): void {
  try {
    // One that was made so before is served on, because its rows are needed.
    if (!existsSync(join(dataDir, ROWS_NAME))) assertNotNested(dataDir);
    makeNamedFolder(dataDir);
    if (!statSync(dataDir).isDirectory()) throw notAFolder(dataDir);
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    if (isBackup) return;
    assertFolderOwner(dataDir);
    assertNoBackup(dataDir);
  } catch (error) {
    throw explainFolderError(dataDir, error);
  }
}

/** A server would start empty in a backup and mix its files into it. One that did so before has rows there, and keeps them. */
function assertNoBackup(dataDir: string): void {
  if (existsSync(join(dataDir, ROWS_NAME)) || describeOwn(dataDir) !== 'the backup') return;
  throw new ServeError(
    `${dataDir} holds a backup and is no data folder: make one from it with holdfast restore, or choose another --data`,
  );
}

/**
 * Called before a data folder or a backup is made at `path`. Inside another one it would be lost with that one, be taken for a part
 * of it, or fill its disk. Links in the path are followed as far as it exists. `backup` is one, even without its lock. Throws ServeError.
 */
export function assertNotNested(path: string, backup?: string): void {
  const known = backup === undefined ? undefined : realpathSync(backup);
  let stands = resolve(path);
  while (!existsSync(stands) && dirname(stands) !== stands) stands = dirname(stands);
  const rest = relative(stands, resolve(path));
  for (let above = dirname(join(realpathSync(stands), rest)); ; above = dirname(above)) {
    const kind = above === known ? 'the backup' : describeOwn(above);
    if (kind !== undefined) {
      throw new ServeError(`${path} is inside ${kind} ${above}: choose a folder outside of it`);
    }
    if (above === dirname(above)) return;
  }
}

function describeOwn(folder: string): 'the content folder' | 'the data folder' | 'the backup' | undefined {
  const has = (name: string): boolean => existsSync(join(folder, name));
  // Its disk may be another than that of the rows.
  if (has('STORE') && has('objects')) return 'the content folder';
  if (!has(LOCK_NAME)) return undefined;
  if (DATA_NAMES.some(has)) return 'the data folder';
  return BACKUP_MANIFESTS.some(has) ? 'the backup' : undefined;
}

export interface FolderTrial {
  /** undefined if the folder exists; otherwise the folder in which it would be created */
  readonly madeIn: string | undefined;
  readonly freeBytes: number;
}

/** Whether a server could use or make the folder. Makes nothing. Throws ServeError. */
export function tryDataFolder(dataDir: string): FolderTrial {
  const stands = existsSync(dataDir);
  let folder = resolve(dataDir);
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
  try {
    if (!statSync(folder).isDirectory()) throw notAFolder(dataDir);
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    if (!existsSync(join(dataDir, ROWS_NAME))) assertNotNested(dataDir);
    if (stands) assertFolderOwner(dataDir);
    assertNoBackup(dataDir);
    const { bavail, bsize, blocks } = statfsSync(folder);
    // The system may let root write anywhere, and a file system of the kernel, such as /proc, takes no files all the same.
    if (blocks === 0 && !takesFiles(folder)) {
      throw new ServeError(
        `the data folder ${dataDir} cannot be made: ${folder} holds no files; choose another --data`,
      );
    }
    return { madeIn: stands ? undefined : folder, freeBytes: bavail * bsize };
  } catch (error) {
    throw explainFolderError(dataDir, error);
  }
}

/** An unlinked file tests it: nothing stays, and no other process sees it. */
function takesFiles(folder: string): boolean {
  try {
    // O_TMPFILE of Linux, which the runtime does not name.
    closeSync(openSync(folder, 0o20000000 | constants.O_DIRECTORY | constants.O_RDWR));
    return true;
  } catch {
    return false;
  }
}

/** Whether a server has the folder open right now. Makes nothing. Throws ServeError. */
export function isDataFolderHeld(dataDir: string): boolean {
  const path = join(dataDir, LOCK_NAME);
  if (!existsSync(path)) return false;
  let database: Database | undefined;
  try {
    assertOwnFile(path);
    database = new Database(path, { create: false, readwrite: true });
    database.run('PRAGMA busy_timeout = 0');
    database.run('BEGIN EXCLUSIVE');
    database.run('ROLLBACK');
    return false;
  } catch (error) {
    if (isBusy(error)) return true;
    throw explainFolderError(dataDir, error);
  } finally {
    database?.close();
  }
}

/** Keeps the locks: the garbage collector would close a database without a reference, and release its lock. */
const HELD = new Set<Database>();

/** The lock is a transaction that never ends: the system releases it with the process. The database stays empty. */
function openLock(dataDir: string, take: (database: Database) => void): Database {
  const path = join(dataDir, LOCK_NAME);
  let database: Database | undefined;
  try {
    assertOwnFile(path);
    // By its real path, so that the last part alone could be a link, and that is refused.
    database = new Database(join(realpathSync(dataDir), LOCK_NAME), LOCK_FLAGS);
    database.run('PRAGMA busy_timeout = 0');
    database.run('PRAGMA journal_mode = MEMORY');
    take(database);
    return database;
  } catch (error) {
    database?.close();
    if (isBusy(error)) throw inUse(dataDir);
    if (error instanceof SQLiteError && error.code === 'SQLITE_NOTADB') {
      throw new ServeError(`the lock ${path} is damaged: it never holds data, so remove it and start again`);
    }
    throw explainFolderError(dataDir, error);
  }
}

/** Each worker holds a read transaction, so an exclusive one proves that no worker is left. An immediate one lets workers join. */
function takeAlone(dataDir: string, database: Database, withWorkers: boolean): void {
  for (let looks = 1; !tryExclusive(database); looks += 1) {
    // If an immediate transaction begins, no server holds the folder: workers stand in the way, or who held it has just left.
    database.run('BEGIN IMMEDIATE');
    // A server or a command may leave the folder between two looks at the lock, but hardly so often.
    if (looks === 5) {
      throw new FolderInUse(
        `workers of a server that was killed still use the data folder ${dataDir}: they end by themselves within seconds, so start again then; one that hangs has to be killed`,
      );
    }
    database.run('ROLLBACK');
  }
  if (!withWorkers) return;
  database.run('COMMIT');
  database.run('BEGIN IMMEDIATE');
}

function tryExclusive(database: Database): boolean {
  try {
    database.run('BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if (isBusy(error)) return false;
    throw error;
  }
}

function keepLock(lock: Database): HeldDataFolder {
  HELD.add(lock);
  return {
    release: () => {
      HELD.delete(lock);
      lock.close();
    },
  };
}

const isBusy = (error: unknown): boolean =>
  error instanceof SQLiteError && (error.code ?? '').startsWith('SQLITE_BUSY');

const inUse = (dataDir: string): ServeError =>
  new FolderInUse(
    `the data folder ${dataDir} is in use by another holdfast server: stop that one, or choose another --data folder`,
  );

/** Errors that mean damage when a database is opened. SQLITE_ERROR is one: our statements are right, so the schema is wrong. */
const DAMAGE_CODE = /^SQLITE_(?:NOTADB|CORRUPT\w*|ERROR)$/;

/** The error codes of SQLite on a full disk: for a write, and for the index that it keeps beside its log. */
const FULL_CODES: ReadonlySet<string> = new Set(['SQLITE_IOERR_WRITE', 'SQLITE_IOERR_SHMSIZE']);

/** Turns an error of the disk about a data folder into one line with advice. Returns any other error unchanged. */
export function explainFolderError(dataDir: string, error: unknown): unknown {
  if (error instanceof ServeError) return error;
  const code = codeOf(error) ?? codeOf((error as { cause?: unknown } | null)?.cause);
  if (code !== undefined && DAMAGE_CODE.test(code)) {
    return new ServeError(
      `a database in the data folder ${dataDir} is damaged (${(error as Error).message}): check the disk and restore a backup of the folder`,
      { cause: error },
    );
  }
  if (code === 'EIO' || (code?.startsWith('SQLITE_IOERR') === true && !FULL_CODES.has(code))) {
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
    case 'SQLITE_IOERR_SHMSIZE':
      return new ServeError(
        `the disk of the data folder ${dataDir} is full: free some space and start again`,
      );
    default:
      return error;
  }
}

export const noDeployment = (dataDir: string): ServeError =>
  new ServeError(`${dataDir} holds no deployment: name the folder that the server serves with --data`);

const notAFolder = (dataDir: string): ServeError =>
  new ServeError(`the data folder ${dataDir} is not a folder: choose another --data folder`);
