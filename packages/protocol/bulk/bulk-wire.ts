/** Bodies of Bulk's answers. Instants are Unix time in milliseconds. */
import type { Hash } from '../hash.ts';
import type { PackFault } from '../pack/pack-reader.ts';
import type { ReadyLease, Rejection, UploadInstruction, ValidatedAwaitingChildren } from '../wire.ts';

/** The server needs the node's bytes. */
export interface AbsentNode {
  readonly state: 'absent';
  readonly hash: Hash;
}

/** The record's bytes were turned down. */
export interface RejectedRecord {
  readonly state: 'rejected';
  readonly hash: Hash;
  readonly rejection: Rejection;
}

export type BulkLeaseResult = ReadyLease | ValidatedAwaitingChildren | AbsentNode;

/** `absent` only when a lease is repeated: the node went meanwhile. */
export type PackLeaseResult = BulkLeaseResult | RejectedRecord;

/** Where the one pack of this answer goes: a PUT exactly as told. */
export interface PackInstruction extends UploadInstruction {
  readonly id: string;
  readonly bytesMax: number;
  readonly recordsMax: number;
}

export interface BulkLeaseResponse {
  /** one for each hash, in the order of the request */
  readonly results: readonly BulkLeaseResult[];
  readonly pack?: PackInstruction;
}

export interface PackLeaseResponse {
  /** one for each record before the fault, in the order of the pack */
  readonly results: readonly PackLeaseResult[];
  readonly broken?: PackFault;
}
