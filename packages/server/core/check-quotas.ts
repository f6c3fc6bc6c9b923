/** An early look at quotas, before bytes are sent that no lease could publish. The publication judges for certain. */
import type { Core } from './core.ts';
import type { Space } from './model.ts';
import { findExcess, QuotaExceeded, type Stored, storedOf } from './quotas.ts';

/** Throws RESOURCE_EXHAUSTED if `more` would exceed what the Space or its App may store. */
export async function checkQuotas(core: Core, space: Space, more: Stored): Promise<void> {
  const quotas = core.quotas.find(space);
  if (quotas === undefined) return;
  let excess =
    quotas.space === undefined
      ? undefined
      : findExcess('Space', quotas.space, storedOf(await core.metadata.readCounters(space)), more);
  if (quotas.isAppLimited) excess ??= await core.quotas.findAppExcess(space, more);
  if (excess !== undefined) throw new QuotaExceeded(excess);
}
