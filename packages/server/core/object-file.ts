/** How objects are read: the file that one is, and what makes a read cheaper. */

/** An object that is held open as a file: it can be read and sent even when it was deleted meanwhile. */
export interface ObjectFile {
  /** opens the same file anew */
  readonly path: string;
  /** names the bytes, as `getVersion` does, as they were when the file was opened */
  readonly version: string;
  /** false: something may have changed the bytes since */
  readonly isUnchanged: () => boolean;
  /** as ContentStore's, but always from this file */
  readonly read: (start: number, end: number, aids?: ReadAids) => Promise<Uint8Array>;
  readonly close: () => void;
}

/** Makes a read cheaper, or ends it early. */
export interface ReadAids {
  /** CONTENT_PIECE_BYTES of memory that the caller uses again: the result may lie there */
  readonly scratch?: Uint8Array;
  /** aborts when no caller waits any more */
  readonly signal?: AbortSignal;
}
