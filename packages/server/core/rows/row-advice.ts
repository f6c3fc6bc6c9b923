import type { RowDamage } from '../inspection-ports.ts';

/** The advice for a row in which more than one bit is wrong. */
export const damageOf = (table: string): string =>
  `is not as it was written, by more than one bit: ${
    table === 'nodes'
      ? 'check --repair puts it right by the bytes of the node, and so does an upload of it'
      : 'restore a backup of the rows'
  }`;

/** Tables by which the rows of others are found. */
export const OWNERS: ReadonlySet<string> = new Set(['spaces', 'domains']);

/** A row that no Space or domain leads to may be all that is left of what kept a node. */
export const unreachedIn = (table: string): RowDamage => ({
  ...{ table, space: undefined, hash: undefined, isProtecting: true, repaired: false },
  message: `a row of ${table} belongs to no Space or domain: restore a backup of the rows`,
});
