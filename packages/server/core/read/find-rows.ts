/** Looks rows of nodes up outside of transactions. None that is damaged holds up the others. */
import type { Hash } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import type { ContentRow, NodeRow, Space } from '../model.ts';
import { orIfDamaged } from '../store-failure.ts';

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
