/** The rows and values of packs. Plain data: no I/O, no behaviour. */
import type { RejectionCode } from '@holdfast/protocol';
import type { Generation } from './model.ts';

/** 32 lowercase hex digits, 128 random bits. Names a pack to clients, within one Space. */
export type PackId = string;

/** `open`: nothing is judged. `judging`: its records are being published. `judged`: they were, or it was given up. */
export type PackState = 'open' | 'judging' | 'judged';

export interface PackRow {
  readonly id: PackId;
  /** the key of its object */
  readonly generation: Generation;
  readonly state: PackState;
  readonly createdAt: number;
  /** ms; when the last URL signed for it expires */
  readonly urlExpiresAt: number;
  /** ms; last lease call that opened it or asked for it */
  readonly touchedAt: number;
  /** SHA-256 over the hashes that it was opened for, in order */
  readonly asked: Uint8Array;
  /** bytes of the object; undefined until it is known to be complete */
  readonly bytes: number | undefined;
  /** records that are published so far, in the order of publication */
  readonly publishedCount: number;
  /** kept free for the records that are not published yet */
  readonly reserved: { readonly bytes: number; readonly nodes: number };
  /** the object is gone, or a discard */
  readonly isDiscarded: boolean;
}

/** The verdicts on the records of a pack. Kept until 24 h after the last lease of the pack. */
export interface PackVerdicts {
  /** of all records in the order of the pack, 32 raw bytes each */
  readonly hashes: Uint8Array;
  readonly rejections: readonly PackRejection[];
  /** nothing was judged from this byte on */
  readonly broken: { readonly byte: number; readonly message: string } | undefined;
}

export interface PackRejection {
  /** of the record in the pack */
  readonly index: number;
  readonly code: RejectionCode;
  readonly message: string;
}

/** Live records of a pack: those that content rows name. The engine keeps them true. */
export interface PackUse {
  readonly liveRecords: number;
  /** stored bytes */
  readonly liveBytes: number;
  /** ms; when a record first stopped being live; 0: all are */
  readonly firstDeadAt: number;
}
