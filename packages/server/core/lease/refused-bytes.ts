/** Bytes that a quota has refused are deleted from the disk at once. */

import { deleteDiscards } from '../collect/sweep.ts';
import type { Core } from '../core.ts';
import type { Space } from '../model.ts';
import { type Excess, QuotaExceeded } from '../quotas.ts';

/** Deletes the bytes that a refusal has discarded. Resolves with what to throw. */
export async function refuse(core: Core, space: Space, excess: Excess): Promise<QuotaExceeded> {
  // If a deletion fails, the sweep deletes the object later.
  await deleteDiscards(core, space).catch(() => undefined);
  return new QuotaExceeded(excess);
}
