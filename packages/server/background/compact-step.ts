/** Compacts packs in small steps, no faster than a store that also serves requests can bear. */

import type { Core } from '../core/core.ts';
import type { Generation } from '../core/model.ts';
import { compactPacks } from '../core/packs/compact-packs.ts';
import { type PackingWalk, packSmallNodes } from '../core/packs/pack-small-nodes.ts';
import {
  COMPACTED_BYTES,
  COMPACTED_RECORDS,
  PACK_DEAD_BYTES,
  PACKED_NODES,
} from '../metrics/server-metrics.ts';
import type { BackgroundTurns } from './turns.ts';

interface CompactionPace {
  readonly compactBytesPerSecond: number;
  /** after a step that found nothing to do */
  readonly compactPauseMs: number;
  /** from the end of one walk for small nodes to the start of the next */
  readonly packPauseMs: number;
  /** between requests for a turn while another process has it */
  readonly askMs: number;
}

/** Resolves with the ms until the next step. */
export function makeCompactStep(
  core: Core,
  turns: BackgroundTurns,
  { compactBytesPerSecond, compactPauseMs, packPauseMs, askMs }: CompactionPace,
): () => Promise<number> {
  const stuck = new Set<Generation>();
  let walk: PackingWalk | undefined;
  /** the position of the last failed step of the walk */
  let failedAt: PackingWalk | undefined;
  /** ms of the monotonic clock */
  let walksAgainAt = 0;
  const pack = async (): Promise<number> => {
    if (performance.now() < walksAgainAt) return 0;
    const { bytes, moved, cost, next, failure } = await packSmallNodes(core, walk).catch((error: unknown) => {
      // A Space whose rows keep failing does not block the others: the next walk tries it again.
      if (walk?.within !== undefined && failedAt === walk) walk = { ...walk, within: undefined };
      failedAt = walk;
      throw error;
    });
    walk = next;
    if (next === undefined) walksAgainAt = performance.now() + packPauseMs;
    COMPACTED_BYTES.add(bytes);
    PACKED_NODES.add(moved);
    if (failure !== undefined) throw failure;
    return cost;
  };
  return async () => {
    if ((await turns.take('compact')) === undefined) return askMs;
    let cost: number;
    try {
      const { bytes, moved } = await compactPacks(core, stuck);
      COMPACTED_BYTES.add(bytes);
      COMPACTED_RECORDS.add(moved);
      cost = bytes + (await pack());
    } finally {
      // Updated after a failure too, because operators then look for space that could not be freed.
      PACK_DEAD_BYTES.set(await core.metadata.packs.readDeadBytes());
    }
    return cost === 0 ? compactPauseMs : (cost / compactBytesPerSecond) * 1000;
  };
}
