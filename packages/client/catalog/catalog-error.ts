/** Errors of names and the lists they stand in, besides those of the requests themselves. */

/**
 * - `MALFORMED`: the node says that it is a catalog, but it is none.
 * - `OTHER_VERSION`: a catalog of another version stands in this domain; nothing was written.
 * - `INVALID_ARGUMENT`: no name, id, date or policy can look like this; nothing was sent.
 * - `NOT_FOUND`, `AMBIGUOUS`: nothing, or several things, have this name, id, date or prefix.
 * - `PINNED`: a pinned snapshot is not forgotten.
 * - `KEEPS_NOTHING`, `TIME_IN_FUTURE`: a retention policy that would forget everything, or cannot be applied.
 * - `NOT_READY`: a tree that must be listed is not ready on the server.
 * - `COLLECTED`: what was forgotten is gone.
 * - `CONTENDED`: others changed the list faster than this call could, time after time.
 * - `TOO_LARGE`: the list has grown beyond what a catalog holds.
 */
export type CatalogErrorCode =
  | 'MALFORMED'
  | 'OTHER_VERSION'
  | 'INVALID_ARGUMENT'
  | 'NOT_FOUND'
  | 'AMBIGUOUS'
  | 'PINNED'
  | 'KEEPS_NOTHING'
  | 'TIME_IN_FUTURE'
  | 'NOT_READY'
  | 'COLLECTED'
  | 'CONTENDED'
  | 'TOO_LARGE';

/** Branch on `code`; `message` is one line for people. */
export class CatalogError extends Error {
  override readonly name = 'CatalogError';
  readonly code: CatalogErrorCode;

  constructor(code: CatalogErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
