/** An early look at quotas, before bytes are sent that no lease could publish. The publication judges for certain. */
import type { Core } from '../core.ts';
import type { Space } from '../model.ts';
import {
  type Excess,
  findExcess,
  QuotaExceeded,
  type QuotaLimits,
  type Stored,
  storedOf,
} from '../quotas.ts';

/** Throws RESOURCE_EXHAUSTED if `more` would exceed what the Space or its App may store. */
export async function checkQuotas(core: Core, space: Space, more: Stored): Promise<void> {
  const excess = await findQuotaExcess(core, space, more);
  if (excess !== undefined) throw new QuotaExceeded(excess);
}

async function findQuotaExcess(
  { metadata, quotas }: Core,
  space: Space,
  more: Stored,
): Promise<Excess | undefined> {
  const found = quotas.find(space);
  if (found === undefined) return undefined;
  const excess = isLimited(found.space, more)
    ? findExcess('Space', found.space, storedOf(await metadata.readCounters(space)), more)
    : undefined;
  if (excess !== undefined || !found.isAppLimited) return excess;
  return quotas.findAppExcess(space, more);
}

/** Whether one of the limits concerns what `more` adds; otherwise the usage need not be read. */
function isLimited(limits: QuotaLimits | undefined, more: Stored): boolean {
  const { maxBytes, maxNodes } = limits ?? {};
  return (maxBytes !== undefined && more.bytes > 0) || (maxNodes !== undefined && more.nodes > 0);
}
