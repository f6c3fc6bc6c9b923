/** Whether a Space holds anything. Pure. */
import type { SpaceCounters } from './model.ts';
import type { SpaceHoldings } from './tenancy-ports.ts';

export const NO_HOLDINGS: SpaceHoldings = { pendingBytes: 0, commitRows: 0 };

export function isEmpty({ nodeCount }: SpaceCounters, { pendingBytes, commitRows }: SpaceHoldings): boolean {
  return nodeCount === 0 && pendingBytes === 0 && commitRows === 0;
}
