/** What a damaged row of a node is put right by, within one transaction (core/lease/mend-node.ts). */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from './awaitable.ts';
import type { NodeRow } from './model.ts';

export interface NodeMending {
  /** The row as it stands, damaged or not; a number that no row has is 0 in it. undefined: there is none. */
  findUnproven(hash: Hash): Awaitable<UnprovenNode | undefined>;
  /** How often the refs and the balances of the Space name the hash, whether their rows are proven or not. */
  countHolders(hash: Hash): Awaitable<NodeHolders>;
  /** Writes `row` in place of what stands there. Of all counters only that of leases follows. */
  replaceNode(stands: NodeRow, row: NodeRow): Awaitable<void>;
}

export interface UnprovenNode {
  readonly row: NodeRow;
  /** whether a row with these values has the sum that this one carries */
  readonly hasSumOf: (row: NodeRow) => boolean;
}

export type NodeHolders = Pick<NodeRow, 'childRefCount' | 'rootRefCount' | 'heldDomainCount'>;
