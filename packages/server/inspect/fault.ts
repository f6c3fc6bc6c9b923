import type { Hash } from '@holdfast/protocol';

/** A fault, before it is known whether it can be repaired. */
export interface Fault {
  readonly kind: FindingKind;
  /** undefined for a fault of the whole Space */
  readonly hash: Hash | undefined;
  readonly message: string;
}

export const FINDING_KINDS = [
  'edges',
  'missing-child',
  'root-refs',
  'history',
  'usage',
  'content-record',
  'lost',
  'damaged',
  'row',
  'rotten',
  'unreadable',
] as const;
export type FindingKind = (typeof FINDING_KINDS)[number];
