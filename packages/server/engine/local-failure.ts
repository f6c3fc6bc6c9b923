/** Sorts the errors of SQLite and the disk: a passing failure, a broken rule, or an unknown outcome. */
import { ApiError } from '@holdfast/protocol';
import { CounterBroken, InvariantViolation } from '../core/invariant.ts';
import { StoreUnavailable } from '../core/store-failure.ts';
import { codeOf } from '../error-code.ts';

/** A COMMIT that fails with one of these has no complete commit record in the log: certainly nothing is committed. */
const NOT_COMMITTED_CODES: ReadonlySet<string> = new Set([
  'SQLITE_FULL',
  'SQLITE_IOERR_WRITE',
  'SQLITE_NOMEM',
  'SQLITE_IOERR_NOMEM',
]);

const HINTS: Readonly<Record<string, string>> = {
  SQLITE_FULL: 'the disk is full: free some space',
  ENOSPC: 'the disk is full: free some space',
  EDQUOT: 'the disk quota is used up: raise it or free some space',
  EROFS: 'the data folder is read-only: remount it writable',
  SQLITE_READONLY: 'the data folder is read-only: make it writable',
  EMFILE: 'too many open files: raise the limit of open files',
  SQLITE_CORRUPT: 'a page of the database is damaged: check the disk and restore a backup of the folder',
  SQLITE_IOERR_WRITE: 'the disk takes no writes: see whether it is full, read-only or failing',
  EIO: 'the disk reports an I/O error: check it',
};

export function isBusy(error: unknown): boolean {
  return codeOf(error)?.startsWith('SQLITE_BUSY') ?? false;
}

export function isSurelyNotCommitted(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && NOT_COMMITTED_CODES.has(code);
}

/** SQLite met a damaged page: the transaction cannot be used any more, and its COMMIT fails and changes nothing. */
export function isDamageMet(error: unknown): boolean {
  const cause = error instanceof StoreUnavailable ? error.cause : error;
  return codeOf(cause)?.startsWith('SQLITE_CORRUPT') ?? false;
}

/** A failed CHECK is a broken count, a violated key a broken invariant, any other error of SQLite or the disk a passing failure. */
export function storageError(error: unknown, doing: string, { isUndecided = false } = {}): unknown {
  // An ApiError refuses the caller, as when a body comes too slowly: nothing is wrong with the disk.
  if (error instanceof StoreUnavailable || error instanceof ApiError) return error;
  const code = codeOf(error);
  if (code === undefined) return error;
  // A sum that is no integer any more comes of a damaged counter.
  if (code === 'SQLITE_CONSTRAINT_CHECK' || code === 'SQLITE_CONSTRAINT_DATATYPE')
    return new CounterBroken((error as Error).message);
  if (code.startsWith('SQLITE_CONSTRAINT')) {
    return new InvariantViolation(`broken invariant while ${doing}: ${(error as Error).message}`);
  }
  const hint = HINTS[code] ?? 'see the log for the cause';
  const isDamage = code.startsWith('SQLITE_CORRUPT');
  return new StoreUnavailable(`${doing} failed (${code}): ${hint}`, { cause: error, isDamage, isUndecided });
}

/** Returns what `work` returns. An error of the disk or of SQLite becomes a StoreUnavailable, in which `doing` says what failed. */
export function guardNow<T>(doing: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw storageError(error, doing);
  }
}

/** The same for work that takes time. */
export async function guard<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw storageError(error, doing);
  }
}
