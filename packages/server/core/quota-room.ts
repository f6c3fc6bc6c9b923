/** The room that quotas leave for one lease of a node or a pack, and an early check of it. Without quotas it costs one look-up. */
import type { Core } from './core.ts';
import type { Space } from './model.ts';
import {
  type Excess,
  findExcess,
  NOTHING_STORED,
  QuotaExceeded,
  type QuotaInput,
  type QuotaLimits,
  type Reservation,
  type Stored,
  storedOf,
} from './quotas.ts';

export class QuotaRoom {
  readonly #core: Core;
  readonly #space: Space;
  #reservation: Reservation | undefined;
  #input: QuotaInput | undefined;

  constructor(core: Core, space: Space) {
    this.#core = core;
    this.#space = space;
    const quotas = core.quotas.find(space);
    if (quotas === undefined) return;
    this.#input = {
      space: quotas.space,
      app: quotas.isAppLimited ? { reserved: NOTHING_STORED } : undefined,
    };
  }

  get input(): QuotaInput | undefined {
    return this.#input;
  }

  /** Reserves room for `more` in place of an earlier reservation. If there is none, the next decision refuses, and keeps the upload. */
  async reserve(more: Stored): Promise<void> {
    this.settle(false);
    const reserved = await this.#core.quotas.reserve(this.#space, more);
    const isRoom = 'settle' in reserved;
    this.#reservation = isRoom ? reserved : undefined;
    this.#input = { space: this.#input?.space, app: isRoom ? { reserved: more } : { excess: reserved } };
  }

  settle(isStored: boolean): void {
    this.#reservation?.settle(isStored);
    this.#reservation = undefined;
  }
}

/**
 * Throws RESOURCE_EXHAUSTED if `more` would exceed what the Space or its App may store, before bytes are sent that no lease could
 * publish. The publication judges for certain.
 */
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
