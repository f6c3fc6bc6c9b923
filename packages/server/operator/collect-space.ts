/** `space gc`: collects one Space in passes of runGc of the Space API. */
import { GC_NODES_MAX, type GcResult } from '@holdfast/protocol';
import { runGc } from '../core/collect/run-gc.ts';
import type { Core } from '../core/core.ts';
import type { Space } from '../core/model.ts';
import { noteCollection } from '../metrics/note-collection.ts';

/** Nodes per pass when everything is to be collected: large enough to be efficient, small enough to notice a disconnect soon. */
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
    // A pass that deleted nothing found only nodes that are kept again.
    if (pass.examined < PASS_NODES || pass.deleted === 0 || signal.aborted) return total;
  }
}
