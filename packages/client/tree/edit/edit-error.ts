/** An edit that cannot be made as it was asked. */
import { formatName } from '../walk/tree-path.ts';

/**
 * - `NOT_FOUND`: what is to be removed, moved, copied or marked is not there.
 * - `EXISTS`: something stands where the edit puts something, and may not be replaced.
 * - `NO_PARENT`: the folder that the path is in does not exist, or is a file or link.
 * - `INTO_ITSELF`: a folder cannot be moved or copied onto itself, or below itself.
 * - `INVALID_PATH`: nothing can have this path.
 */
export type EditErrorCode = 'NOT_FOUND' | 'EXISTS' | 'NO_PARENT' | 'INTO_ITSELF' | 'INVALID_PATH';

/** Branch on `code`; `message` is one line for people. Nothing was changed. */
export class EditError extends Error {
  override readonly name = 'EditError';
  readonly code: EditErrorCode;
  readonly path: string | Uint8Array;
  /** of the edit among those that were given */
  readonly index: number;

  constructor(
    code: EditErrorCode,
    reason: string,
    at: { readonly path: string | Uint8Array; readonly index: number },
  ) {
    const bytes = typeof at.path === 'string' ? new TextEncoder().encode(at.path) : at.path;
    super(`${formatName(bytes)}: ${reason}`);
    this.code = code;
    this.path = at.path;
    this.index = at.index;
  }
}
