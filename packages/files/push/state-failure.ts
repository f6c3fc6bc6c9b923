/** How the state of a push fails, and what that means: it is a hint, so a push can go on without it. */

/** Another process holds the state of this folder. */
export class TreeStateBusyError extends Error {
  override readonly name = 'TreeStateBusyError';
}

/** The file is of another version of this program. */
export class StateVersionError extends Error {
  override readonly name = 'StateVersionError';
}

/** The state cannot be used any more. Every further call but `close` and `discard` throws the same. `message`: the database's. */
export class TreeStateLostError extends Error {
  override readonly name = 'TreeStateLostError';
  readonly reason: 'damaged' | 'unwritable';

  constructor(reason: 'damaged' | 'unwritable', message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** A refusal of the system, as opposed to a fault in the file. */
const SYSTEM_CODES = /^SQLITE_(?:FULL|IOERR|READONLY|CANTOPEN|NOMEM|BUSY|LOCKED|PERM|NOLFS|AUTH)/;

/** Any other failure to read a file that was just written is damage: it decodes to nonsense. */
export function toLostError(error: unknown): TreeStateLostError {
  if (error instanceof TreeStateLostError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const reason = SYSTEM_CODES.test(codeOf(error)) ? 'unwritable' : 'damaged';
  return new TreeStateLostError(reason, message, { cause: error });
}

export function isBusy(error: unknown): boolean {
  return /^SQLITE_(?:BUSY|LOCKED)/.test(codeOf(error));
}

/** A hint that cannot be read is no loss. */
export function isDamage(error: unknown): boolean {
  if (error instanceof StateVersionError) return true;
  if (error instanceof TreeStateLostError) return error.reason === 'damaged';
  return codeOf(error).startsWith('SQLITE_') && !SYSTEM_CODES.test(codeOf(error));
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}
