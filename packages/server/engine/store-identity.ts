/**
 * Which store of bytes belongs to the rows. The rows keep it, and the store of bytes has a marker that holds it. The order is the
 * same wherever either lies, so that a crash in between begins anew or goes on: the id is durable with the rows, then the marker
 * in the store of bytes, then the note that it is there, and only then is anything else written. A store of bytes is refused
 * when its marker holds another id, and when it has none though one was written.
 */
export interface StoreIdentity {
  /** letters, digits and `-`; made once, by chance, and the same in every process */
  readonly storeId: string;
  /** the marker was written once: a store of bytes without it is another one, or was lost */
  readonly isMarked: boolean;
  /** Durable when it resolves. */
  noteMarked(): Promise<void>;
}
