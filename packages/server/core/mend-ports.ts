/** Ports for the repair of a damaged row, within one transaction (core/lease/mend-node.ts). */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { NodeRow } from './model.ts';

export interface NodeMending {
  /** The current row, damaged or not; an impossible number is replaced by 0. undefined if there is none. */
  findUnproven(hash: Hash): Awaitable<UnprovenNode | undefined>;
  /**
   * The rows of all `hashes` say that nothing holds them. Returns those that something may hold all the same: a balance names the hash, or
   * there is a row whose key differs in one bit of the hash or of the Space.
   */
  findDoubted(hashes: readonly Hash[]): Awaitable<readonly Hash[]>;
  /** Replaces the current row by `row`. Of all counters only the one of leases is updated. */
  replaceNode(stands: NodeRow, row: NodeRow): Awaitable<void>;
}

export interface UnprovenNode {
  readonly row: NodeRow;
  /** whether a row with these values has the sum that this one carries */
  readonly hasSumOf: (row: NodeRow) => boolean;
  /** How many refs and balances of the Space name its hash, including those in unproven rows. */
  readonly countHolders: () => Awaitable<NodeHolders>;
}

export type NodeHolders = Pick<NodeRow, 'childRefCount' | 'rootRefCount' | 'heldDomainCount'>;
