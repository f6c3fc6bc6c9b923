import type { RowDamage } from '../inspection-ports.ts';
import { orIfDamaged } from '../store-failure.ts';

/** The advice for a row in which more than one bit is wrong. */
const damageOf = (table: string): string =>
  `is not as it was written, by more than one bit: ${
    table === 'nodes'
      ? 'check --repair puts it right by the bytes of the node, and so does an upload of it'
      : 'restore a backup of the rows'
  }`;

/** Tables by which the rows of others are found. */
const OWNERS: ReadonlySet<string> = new Set(['spaces', 'domains']);

/** A row that no Space or domain leads to may be all that is left of what kept a node. */
const unreachedIn = (table: string): RowDamage => ({
  ...{ table, space: undefined, hash: undefined, isProtecting: true, repaired: false },
  message: `a row of ${table} belongs to no Space or domain: restore a backup of the rows`,
});

/** Names tables with rows that belong to no Space or domain; none if an owner itself is damaged, because that finding explains them. */
export const unreachedBeside = async (
  found: readonly RowDamage[],
  findTables: () => Promise<readonly string[]>,
): Promise<readonly RowDamage[]> => {
  if (found.some(({ table, repaired }) => !repaired && OWNERS.has(table))) return [];
  return orIfDamaged(
    async () => (await findTables()).map(unreachedIn),
    () => [],
  );
};

export const CONTRADICTED = 'has values that the rows it follows from contradict';

/** `row`: its table and its key. `fault`: what `check --repair` can put right; undefined if it can put nothing right. */
export const rowDamage = (
  row: string,
  { fault, ...damage }: Omit<RowDamage, 'message'> & { readonly fault: string | undefined },
): RowDamage => {
  const remedy = damage.repaired ? '' : ': check --repair puts it right';
  return { ...damage, message: `${row} ${fault === undefined ? damageOf(damage.table) : fault + remedy}` };
};
