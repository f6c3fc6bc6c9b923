/** getUsage: reads counters that are exact at each commit, and never scans the Space (docs/api.md, getUsage). */
import type { SpaceUsage } from '@holdfast/protocol';
import type { Core } from '../core.ts';
import { assertCount } from '../invariant.ts';
import type { Space, SpaceCounters } from '../model.ts';
import type { ContentStore } from '../ports.ts';
import type { AppTotals, SpaceHoldings } from '../tenancy-ports.ts';

export async function getUsage(core: Core, space: Space): Promise<SpaceUsage> {
  return usageOf(core, space, await core.metadata.readCounters(space));
}

/** What was received in the Space and is not judged, and what is being received now, by all processes. */
export function pendingBytesOf({ content }: Core, space: Space, { pendingBytes }: SpaceHoldings): number {
  const { upload } = content;
  return pendingBytes + (upload.kind === 'server' ? upload.receiver.heldBytes(space) : 0);
}

/** The sums of an App, with what is being received of it now. */
export async function readTotalsOf({ metadata, content }: Core, appId: string): Promise<AppTotals> {
  const totals = await metadata.readAppTotals(appId);
  return { ...totals, pendingBytes: totals.pendingBytes + heldBytesOfApp(content, appId) };
}

/** What is being received of an App now, by all processes. */
export function heldBytesOfApp({ upload }: Pick<ContentStore, 'upload'>, appId: string): number {
  return upload.kind === 'server' ? upload.receiver.heldBytesOfApp(appId, 'all') : 0;
}

export function usageOf(core: Core, space: Space, counters: SpaceCounters): SpaceUsage {
  for (const [name, count] of Object.entries(counters)) assertCount(count, name, space);
  const { upload } = core.content;
  const receiving = upload.kind === 'server' ? upload.receiver.reservedBytes(space) : 0;
  return {
    nodeCount: counters.nodeCount,
    readyContentBytes: counters.readyContentBytes,
    readyStoredBytes: counters.readyStoredBytes,
    reservedBytes: counters.waitingBytes + receiving,
    notReadyNodeCount: counters.notReadyNodeCount,
    leasedNodeCount: counters.leasedNodeCount,
  };
}
