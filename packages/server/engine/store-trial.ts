/** What a look at a store tells, without opening or making anything. A store that cannot be used throws instead. */

/** @throws EngineRefused, StoreUnavailable */
export interface RowsTrial {
  /** a server works on the rows right now */
  readonly isServed: boolean;
  /** the schema that the rows have; undefined: a start makes them */
  readonly version: number | undefined;
  /** of store-identity.ts; undefined: no store of bytes has been bound to the rows, or that cannot be told from outside */
  readonly storeId: string | undefined;
  /** the store of bytes had its marker once */
  readonly isMarked: boolean;
  /** the epoch that the rows have (core/store-epoch.ts); undefined: none yet, or it cannot be told from outside */
  readonly epoch?: number | undefined;
  /** ms that the store's clock is ahead of this machine's; undefined: it has none of its own */
  readonly clockAheadMs: number | undefined;
}

/** @throws EngineRefused, StoreUnavailable */
export interface BytesTrial {
  /** the id in the store's marker; undefined: it has none */
  readonly storeId: string | undefined;
  /** the epoch of the bucket; undefined: no server has begun one */
  readonly epoch: number | undefined;
  readonly clockAheadMs: number | undefined;
}
