/** Rows of nodes by hash where a damaged row is an answer, and no failure. */
import type { Hash } from '@holdfast/protocol';
import type { Awaitable } from '../awaitable.ts';
import type { Core } from '../core.ts';
import type { ContentRow, NodeRow, NodeRowState, Space } from '../model.ts';
import type { SpaceTransaction } from '../ports.ts';
import { orIfDamaged, RowDamaged } from '../store-failure.ts';

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

export type RowFound =
  | { readonly node: NodeRow; readonly content: ContentRow | undefined }
  | 'damaged'
  | undefined;

/** Aligned with `hashes`. */
export function findRows(core: Core, space: Space, hashes: readonly Hash[]): Promise<readonly RowFound[]> {
  const find = async (some: readonly Hash[]) => core.metadata.findNodesWithContent(space, some);
  return orIfDamaged(
    () => find(hashes),
    async () => {
      const rows: RowFound[] = [];
      for (const hash of hashes) {
        const row = orIfDamaged(
          async () => (await find([hash]))[0],
          (): 'damaged' => 'damaged',
        );
        rows.push(await row);
      }
      return rows;
    },
  );
}
