/** Counts what a collection pass deleted. */
import { COLLECTED_BYTES, COLLECTED_NODES, GC_LAST_SUCCESS } from './server-metrics.ts';

interface Collected {
  readonly deleted: number;
  readonly reclaimedContentBytes: number;
}

export function noteCollection<T extends Collected>(result: T): T {
  COLLECTED_NODES.add(result.deleted);
  COLLECTED_BYTES.add(result.reclaimedContentBytes);
  GC_LAST_SUCCESS.set(Date.now() / 1000);
  return result;
}
