/** What a quota has refused leaves the disk at once. */

import { deleteDiscards } from '../collect/sweep.ts';
import type { Core } from '../core.ts';
import type { Space } from '../model.ts';
import { type Excess, QuotaExceeded } from '../quotas.ts';

/** Deletes the bytes that a refusal has discarded. Resolves with what to throw. */
export async function refuse(core: Core, space: Space, excess: Excess): Promise<QuotaExceeded> {
  // What cannot be deleted now is deleted by the sweep.
  await deleteDiscards(core, space).catch(() => undefined);
  return new QuotaExceeded(excess);
}
