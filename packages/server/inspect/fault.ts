/** What a check finds. */
import type { Hash } from '@holdfast/protocol';

/** Something wrong, before it is known whether it could be repaired. */
export interface Fault {
  readonly kind: FindingKind;
  /** undefined: it is about the whole Space */
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
