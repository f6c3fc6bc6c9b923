/** The room that quotas leave for one lease, of a node or of a pack. Without quotas it costs one look. */
import type { Core } from './core.ts';
import type { Space } from './model.ts';
import { NOTHING_STORED, type QuotaInput, type Reservation, type Stored } from './quotas.ts';

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

  /** If there is no room, the next decision says so, and keeps the upload. */
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
