/** `space gc`: the collection of one Space, by the same passes as runGc of the Space API. */
import { GC_NODES_MAX, type GcResult } from '@holdfast/protocol';
import { runGc } from '../core/collect/run-gc.ts';
import type { Core } from '../core/core.ts';
import type { Space } from '../core/model.ts';
import { noteCollection } from '../metrics/note-collection.ts';

/** Duration of each pass when all is to be collected: long enough to be efficient, short enough to notice soon that a caller went away. */
const PASS_NODES = 1_000;

/** One pass over at most `maxNodes`; without it, passes until nothing is left to collect. */
export async function collectSpace(
  core: Core,
  space: Space,
  maxNodes: number | undefined,
  signal: AbortSignal,
): Promise<GcResult> {
  if (maxNodes !== undefined)
    return noteCollection(await runGc(core, space, Math.min(maxNodes, GC_NODES_MAX)));
  let total: GcResult = { examined: 0, deleted: 0, reclaimedContentBytes: 0 };
  for (;;) {
    const pass = noteCollection(await runGc(core, space, PASS_NODES));
    total = {
      examined: total.examined + pass.examined,
      deleted: total.deleted + pass.deleted,
      reclaimedContentBytes: total.reclaimedContentBytes + pass.reclaimedContentBytes,
    };
    // A pass that deleted nothing found only what has become kept again meanwhile.
    if (pass.examined < PASS_NODES || pass.deleted === 0 || signal.aborted) return total;
  }
}
