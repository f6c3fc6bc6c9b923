/** Compacts packs a little at a time, no faster than a store can bear that also serves requests. */

import type { Core } from '../core/core.ts';
import type { Generation } from '../core/model.ts';
import { compactPacks } from '../core/packs/compact-packs.ts';
import { COMPACTED_BYTES, COMPACTED_RECORDS, PACK_DEAD_BYTES } from '../metrics/server-metrics.ts';
import type { BackgroundTurns } from './turns.ts';

interface CompactionPace {
  readonly compactBytesPerSecond: number;
  /** after a look that found nothing to do */
  readonly compactPauseMs: number;
  /** between requests for a turn while another process has it */
  readonly askMs: number;
}

/** Resolves with the ms until the next step. */
export function makeCompactStep(
  core: Core,
  turns: BackgroundTurns,
  { compactBytesPerSecond, compactPauseMs, askMs }: CompactionPace,
): () => Promise<number> {
  const stuck = new Set<Generation>();
  return async () => {
    if ((await turns.take('compact')) === undefined) return askMs;
    const { bytes, moved } = await compactPacks(core, stuck);
    COMPACTED_BYTES.add(bytes);
    COMPACTED_RECORDS.add(moved);
    PACK_DEAD_BYTES.set(await core.metadata.readDeadBytes());
    return bytes === 0 ? compactPauseMs : (bytes / compactBytesPerSecond) * 1000;
  };
}
