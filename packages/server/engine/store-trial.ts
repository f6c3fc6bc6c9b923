/** The result of inspecting a store, without opening or creating anything. An unusable store throws instead. */

/** Whether a store of rows proves its pages by checksums of its own. */
export type PageChecksums = 'on' | 'off';

const CHECKSUMS_SAID: Readonly<Record<PageChecksums, string>> = {
  on: 'PostgreSQL proves its pages by checksums: data_checksums is on',
  off: 'PostgreSQL does not see damage to its pages: data_checksums is off; stop it and run pg_checksums --enable, or make the cluster with initdb -k',
};

/** For a log, and for `config check`. */
export const describeChecksums = (checksums: PageChecksums): string => CHECKSUMS_SAID[checksums];

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
  /** undefined: the store has none of its own, or does not say */
  readonly pageChecksums?: PageChecksums | undefined;
}

/** @throws EngineRefused, StoreUnavailable */
export interface BytesTrial {
  /** the id in the store's marker; undefined: it has none */
  readonly storeId: string | undefined;
  /** the epoch of the bucket; undefined: no server has begun one */
  readonly epoch: number | undefined;
  readonly clockAheadMs: number | undefined;
}
