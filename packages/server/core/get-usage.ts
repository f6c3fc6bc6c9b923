/** getUsage: reads counters that are exact at each commit, and never scans the Space (docs/api.md, getUsage). */
import type { SpaceUsage } from '@holdfast/protocol';
import type { Core } from './core.ts';
import { assertCount } from './invariant.ts';
import type { Space, SpaceCounters } from './model.ts';

export async function getUsage(core: Core, space: Space): Promise<SpaceUsage> {
  return usageOf(core, space, await core.metadata.readCounters(space));
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
