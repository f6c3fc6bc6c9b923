/** Rows of nodes by hash where a damaged row is an answer, and no failure. */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import type { NodeRow, NodeRowState } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { RowDamaged } from '../store-failure.ts';

/** The row of a hash, if it has one that is as it was written. */
export type FoundNode = NodeRow | 'damaged' | undefined;

export function findNodeOrDamage(tx: SpaceTransaction, hash: Hash): Awaitable<FoundNode> {
  try {
    const found = tx.findNode(hash);
    return found instanceof Promise ? found.catch(toDamage) : found;
  } catch (error) {
    return toDamage(error);
  }
}

function toDamage(error: unknown): 'damaged' {
  if (error instanceof RowDamaged) return 'damaged';
  throw error;
}

/** Aligned with `hashes`. */
export function findNodesOrDamage(
  tx: SpaceTransaction,
  hashes: readonly Hash[],
): Awaitable<readonly FoundNode[]> {
  const each = async (error: unknown): Promise<readonly FoundNode[]> => {
    toDamage(error);
    const found: FoundNode[] = [];
    for (const hash of hashes) found.push(await findNodeOrDamage(tx, hash));
    return found;
  };
  try {
    const found = tx.findNodes(hashes);
    return found instanceof Promise ? found.catch(each) : found;
  } catch (error) {
    return each(error);
  }
}

export const stateOf = (found: FoundNode): NodeRowState | undefined =>
  typeof found === 'object' ? found.state : undefined;
