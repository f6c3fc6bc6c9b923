/**
 * The identity of the store of bytes that belongs to the rows. The rows keep an id, and the store of bytes has a marker that holds the same
 * id. The order is the same for all stores, so that a start after a crash can continue: the id is durable with the rows, then the marker in
 * the store of bytes, then the rows note the marker, and only then is anything else written. A store of bytes is refused if its marker
 * holds another id, or if it has no marker although the rows have noted one.
 */
export interface StoreIdentity {
  /** letters, digits and `-`; made once at random, and the same in every process */
  readonly storeId: string;
  /** the marker was written once: a store of bytes without a marker is another one, or has lost its objects */
  readonly isMarked: boolean;
  /** Durable when it resolves. */
  noteMarked(): Promise<void>;
}
