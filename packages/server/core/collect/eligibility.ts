/** Decides which rows a collection may take (docs/api.md, runGc). Pure. */
import type { NodeRow } from '../model.ts';

/** Judges everything except the lease: engines keep the result as an indexed flag beside `leaseExpiresAt`. */
export function isCollectable(row: NodeRow): boolean {
  return (
    (row.state === 'ready' || row.state === 'rotten') &&
    row.childRefCount === 0 &&
    row.rootRefCount === 0 &&
    row.heldDomainCount === 0
  );
}

export function isEligible(row: NodeRow, now: number): boolean {
  return isCollectable(row) && row.leaseExpiresAt <= now;
}
