/** What readContent needs of the request that waits for content. */
import type { Generation } from '../model.ts';
import type { ReadAids } from '../ports.ts';

/** The content of one object, to be copied for its readers. */
export interface CopySource {
  readonly generation: Generation;
  /** where the content begins within the canonical bytes */
  readonly offset: number;
  /** bytes of the content */
  readonly size: number;
  readonly getVersion: () => Promise<string>;
  /** whether `read` puts the bytes into the memory that it is given */
  readonly fillsScratch: boolean;
  /** proven canonical bytes, `CONTENT_PIECE_BYTES` at most */
  readonly read: (start: number, end: number, aids: ReadAids) => Promise<Uint8Array>;
}

export interface ContentCaller {
  /** Called with the bytes before content is read: waits for room, or rejects. May resolve with memory to read into. */
  reserve?(bytes: number, fillsScratch: boolean): Promise<ReadAids | undefined>;
  /** false: the request needs only the headers */
  readonly wantsBytes: boolean;
  /**
   * Memory to read content of `bytes` into, which is answered from it; `undefined`: there is no room for such an answer now. The
   * memory is used for other content as soon as the answer is made. A store that would not fill it is lent none. Rejects if nobody
   * waits for the content any more.
   */
  lend?(bytes: number, fillsScratch: boolean): Promise<ReadAids> | undefined;
  /** [start, end) as one body, a copy: an answer must send the bytes that were proven. Rejects as `read`, or if there is no room. */
  copy(source: CopySource, start: number, end: number): Promise<Blob>;
}
