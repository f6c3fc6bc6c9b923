/** What readContent needs of the request that waits for content. */
import type { Generation } from './model.ts';
import type { ObjectFile, ReadAids } from './object-file.ts';

/** The content of one object, to be sent to its readers. */
export interface ContentSource {
  readonly generation: Generation;
  /** where the content begins within the canonical bytes */
  readonly offset: number;
  /** bytes of the content */
  readonly size: number;
  /** the object, opened; undefined: it is no file */
  readonly openFile: () => Promise<ObjectFile | undefined>;
  readonly getVersion: () => Promise<string>;
  /** proven canonical bytes, `CONTENT_PIECE_BYTES` at most */
  readonly read: (start: number, end: number, aids: ReadAids) => Promise<Uint8Array>;
}

/** The request that waits for content. */
export interface ContentCaller {
  /** Called before content is read into memory, with its bytes: waits for room, or rejects. */
  readonly reserve?: (bytes: number) => Promise<void>;
  /** false: the request needs only the headers */
  readonly wantsBytes: boolean;
  /**
   * Content [start, end) as one body, to be sent in the same turn, every byte of it proven. Rejects with the error of `openFile` or
   * `read`, or if there is no room for a copy.
   */
  makeBody(source: ContentSource, start: number, end: number): Promise<Blob>;
}
