/** Ports of packs to rows and to the store of bytes, besides those of single nodes (core/ports.ts; core/packs/README.md). */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { Admit, Generation, PackCodec, PackPlace, Space, UploadRow } from './model.ts';
import type { PackId, PackRejection, PackRow, PackUse, PackVerdicts } from './pack-model.ts';

/** Records or rows of one transaction: it holds other tenants up no longer than that takes. */
export const PACK_GROUP_RECORDS = 256;

/** Canonical bytes of a node that is small: it lies better in a pack than in an object of its own (core/packs/README.md). */
export const SMALL_NODE_BYTES_MAX = 64 * 1024;

export interface PackReads {
  findPack(space: Space, id: PackId): Awaitable<PackRow | undefined>;
  findPackVerdicts(space: Space, generation: Generation): Awaitable<PackVerdicts | undefined>;
  /** Bytes of judged packs that no row names, of all Spaces. */
  readDeadBytes(): Awaitable<number>;
}

export interface RecordsWanted {
  readonly space: Space;
  readonly pack: Generation;
  readonly after: number;
  readonly limit: number;
}

export interface ContentsWanted {
  readonly space: Space;
  readonly after: Generation;
  /** contents of this generation and later ones do not count */
  readonly before: Generation;
  readonly limit: number;
}

export interface SpacesWanted {
  /** undefined: from the first one on */
  readonly after: SpaceToPack['position'] | undefined;
  /** as ContentsWanted's */
  readonly before: Generation;
  /** a Space with this many contents is worth packing */
  readonly contentsMin: number;
  readonly limit: number;
}

export interface SpaceToPack {
  readonly space: Space;
  readonly isWorthPacking: boolean;
  /** opaque: the `after` of the next call */
  readonly position: string;
}

export interface CompactionWanted {
  /** a pack with a record that died at this instant or before is wanted, whatever is live in it; ms */
  readonly deadSince: number;
  readonly limit: number;
}

export interface CompactablePack {
  readonly space: Space;
  readonly pack: PackRow;
  readonly use: PackUse;
}

/** Rows of packs in one transaction. The engine keeps `PackUse` true from content rows; it locks packs after all rows of nodes. */
export interface PackVerbs {
  findPack(id: PackId): Awaitable<PackRow | undefined>;
  /** The pack that was opened for the same hashes last, is open, and whose URL is good; whether bytes came is not looked at. */
  findOpenPack(asked: Uint8Array): Awaitable<PackRow | undefined>;
  /** The upload rows of these hashes, aligned with them. */
  findUploads(hashes: readonly Hash[]): Awaitable<readonly (UploadRow | undefined)[]>;
  findUse(generation: Generation): Awaitable<PackUse>;
  findVerdicts(generation: Generation): Awaitable<PackVerdicts | undefined>;
  /** Replaces the earlier ones. */
  setVerdicts(generation: Generation, verdicts: PackVerdicts): Awaitable<void>;
  /** Moves each record whose content row still names `from`. Returns how many. */
  moveRecords(moves: readonly RecordMove[]): Awaitable<number>;
}

export interface SweptPack {
  readonly pack: PackRow;
  readonly use: PackUse;
}

export interface RecordMove {
  /** of the content row */
  readonly generation: Generation;
  readonly from: PackPlace;
  readonly to: PackPlace;
  readonly integrity: Uint8Array;
}

/** Packs in the store of bytes. Their objects lie under write-once keys like all others, and `ContentStore.delete` deletes them. */
export interface PackStore {
  /** Calls `judge` with the complete object, again from the beginning if reading fails. `undefined`: a healthy store has no such object. */
  inspect<T>(
    space: Space,
    generation: Generation,
    judge: (object: PackObject) => Promise<T>,
  ): Promise<T | undefined>;
  /** The stored bytes of a record, proven by the integrity record. Errors as of `ContentStore.read`. */
  readRecord(space: Space, record: PackedRecord): Promise<Uint8Array>;
  /** Stored bytes of records of one pack, in order of offset, at most `READ_AHEAD_BYTES_MAX` together; they may share memory. */
  readRecords(space: Space, records: readonly PackedRecord[]): Promise<readonly Uint8Array[]>;
  /** Makes a pack of the server's own durable under its key, of pieces of any size. */
  write(space: Space, generation: Generation, pieces: AsyncIterable<Uint8Array>): Promise<WrittenPack>;
}

export interface WrittenPack {
  /** of the whole object */
  readonly bytes: number;
  /** The integrity record, in this object, of stored bytes that have `integrity` in another. */
  integrityFrom(integrity: Uint8Array): Uint8Array;
  /** The integrity record, in this object, of these stored bytes. */
  integrityOf(stored: Uint8Array): Uint8Array;
}

export interface PackedRecord {
  readonly place: PackPlace;
  readonly integrity: Uint8Array;
}

export interface PackObject {
  /** of the whole object */
  readonly bytes: number;
  /** From the first byte, once. A piece is good until the next is asked for. */
  read(): AsyncIterable<Uint8Array>;
  /** The integrity record of one record of this object, by its stored bytes. */
  integrityOf(stored: Uint8Array): Uint8Array;
}

export interface PackReceiver {
  /**
   * Streams `body` once to a staged file, or calls it for all bytes at once. Stops behind `bytesMax`. Rejects and leaves nothing if
   * the body breaks off. Meanwhile the generation counts as being received, with `declaredLength` reserved bytes.
   */
  receivePack(
    target: { readonly space: Space; readonly generation: Generation },
    body: ReadableStream<Uint8Array> | Uint8Array | (() => Promise<Uint8Array>),
    declaredLength: number | undefined,
    bytesMax: number,
    admit?: Admit,
  ): Promise<StagedPack>;
}

export interface StagedPack {
  /** undefined if it has more than `bytesMax`; nothing is staged then */
  readonly bytes: number | undefined;
  /** as `StagedUpload.seal` */
  seal(): Promise<boolean>;
  /** as `StagedUpload.release` */
  release(): Promise<void>;
}

/** A record that was judged good. Plain data. */
export interface JudgedRecord {
  /** in the pack, from 0 */
  readonly index: number;
  readonly hash: Hash;
  readonly size: number;
  readonly canonicalSize: number;
  readonly contentType: string;
  readonly refs: Uint8Array;
  readonly place: PackPlace;
  /** of the stored bytes */
  readonly integrity: Uint8Array;
}

export interface JudgedPack {
  /** of the object */
  readonly bytes: number;
  readonly verdicts: PackVerdicts;
  /** those that are good, children before parents */
  readonly records: readonly JudgedRecord[];
}

/** The rule for too large records: this server's limit, or, once verdicts are kept, exactly the records that they name. */
export type SizeRule =
  | { readonly nodeBytesMax: number }
  | { readonly tooLarge: ReadonlyMap<number, PackRejection> };

export interface PackJudge {
  /** Resolves `undefined` if a healthy store has no such object. */
  judge(packs: PackStore, space: Space, pack: Generation, sizes: SizeRule): Promise<JudgedPack | undefined>;
  /** The digest of the canonical bytes of a record. Throws ContentDamaged if `stored` does not decompress to that length. */
  digestOf(codec: PackCodec, canonicalSize: number, stored: Uint8Array): Hash;
}

export interface JudgingTurns {
  /** Resolves when a pack of this Space may be judged. `isAgain`: it gave way. Rejects with RESOURCE_EXHAUSTED, SERVICE_UNAVAILABLE. */
  enter(space: Space, isAgain: boolean): Promise<JudgingPlace>;
}

export interface JudgingPlace {
  /** Resolves at this pack's next turn. `cost`: bytes. False: leave and enter again, because an App without a place waits. */
  nextTurn(cost: number): Promise<boolean>;
  leave(): void;
}
