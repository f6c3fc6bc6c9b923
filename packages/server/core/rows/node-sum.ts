/** The sums of the rows of nodes and of their content. `space`: what the engine knows the Space of the row by. */
import type { ContentRow, NodeRow, NodeRowState, NodeStorage } from '../model.ts';
import { mixValues, type SumValue, weigh } from './row-sum.ts';

const STATE_CODES: Readonly<Record<NodeRowState, number>> = { waiting: 0, ready: 1, rotten: 2, claimed: 3 };
const STORAGE_CODES: Readonly<Record<NodeStorage, number>> = { object: 0, inline: 1, packed: 2 };

type NodeNumbers = Omit<
  NodeRow,
  'hash' | 'size' | 'canonicalSize' | 'contentType' | 'refs' | 'generation' | 'state' | 'storage'
>;

/** Odd and distinct. An engine that adds to a sum in SQL names them too. */
export const NODE_WEIGHTS: Readonly<Record<keyof NodeNumbers | 'state' | 'storage', number>> = {
  state: 3,
  storage: 5,
  storedSize: 7,
  leaseStartedAt: 9,
  leaseExpiresAt: 11,
  childRefCount: 13,
  rootRefCount: 15,
  heldDomainCount: 17,
  waitingTouchedAt: 19,
  claimHeldUntil: 21,
};

/** The values of a row that change, as a number that `nodeSum` contains. */
function changingSum(row: NodeRow): number {
  return (
    NODE_WEIGHTS.state * STATE_CODES[row.state] +
    NODE_WEIGHTS.storage * STORAGE_CODES[row.storage] +
    weigh(NODE_WEIGHTS.storedSize, row.storedSize) +
    weigh(NODE_WEIGHTS.leaseStartedAt, row.leaseStartedAt) +
    weigh(NODE_WEIGHTS.leaseExpiresAt, row.leaseExpiresAt) +
    weigh(NODE_WEIGHTS.childRefCount, row.childRefCount) +
    weigh(NODE_WEIGHTS.rootRefCount, row.rootRefCount) +
    weigh(NODE_WEIGHTS.heldDomainCount, row.heldDomainCount) +
    weigh(NODE_WEIGHTS.waitingTouchedAt, row.waitingTouchedAt) +
    weigh(NODE_WEIGHTS.claimHeldUntil, row.claimHeldUntil)
  );
}

export function nodeSum(space: SumValue, row: NodeRow): number {
  const { hash, size, canonicalSize, contentType, refs, generation } = row;
  const fixed = mixValues([space, hash, size, canonicalSize, contentType, refs]);
  return fixed + mixValues([generation]) + changingSum(row);
}

/** The difference that a change adds to the sum of the row. Values that never change are not read. */
export function nodeSumChange(before: NodeRow, after: NodeRow): number {
  const change = changingSum(after) - changingSum(before);
  if (after.generation === before.generation) return change;
  return change + mixValues([after.generation]) - mixValues([before.generation]);
}

/** Inline bytes are not in it: the hash of their node proves them. */
export function contentSum(space: SumValue, row: ContentRow): number {
  const { generation, canonicalSize, integrity, urlExpiresAt, packed } = row;
  const place = packed === undefined ? [] : [packed.pack, packed.offset, packed.storedLength, packed.codec];
  return mixValues([space, generation, canonicalSize, urlExpiresAt, integrity, ...place]);
}
