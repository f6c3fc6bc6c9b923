/**
 * The room that quotas leave for one PUT: received bytes count before they are judged, so that the disk never fills past a quota.
 * Bytes that a quota refuses are deleted from the disk at once.
 */
import { deleteDiscards } from '../collect/sweep.ts';
import type { Core } from '../core.ts';
import type { Admit, Receiving, Space } from '../model.ts';
import {
  type Excess,
  findExcess,
  QuotaExceeded,
  type QuotaLimits,
  type Reservation,
  storedOf,
} from '../quotas.ts';

interface Wanted {
  /** the declared length, or the most that may come */
  readonly bytes: number;
  /** Healing is never refused. Asked only if the quota would be exceeded; `isOnly`: nothing else of the Space is pending. */
  mayHeal(isOnly: boolean): Promise<boolean>;
}

export class ReceiptRoom {
  readonly #core: Core;
  readonly #space: Space;
  readonly #wanted: Wanted;
  #reservation: Reservation | undefined;

  constructor(core: Core, space: Space, wanted: Wanted) {
    this.#core = core;
    this.#space = space;
    this.#wanted = wanted;
  }

  /** Keeps the room until `settle`. The later of several PUTs sees the earlier. Rejects with RESOURCE_EXHAUSTED. */
  async admit(receiving: Receiving): Promise<void> {
    const found = this.#core.quotas.find(this.#space);
    if (found === undefined) return;
    const { bytes, mayHeal } = this.#wanted;
    let excess: Excess | undefined;
    let isOnly = true;
    if (found.space?.maxBytes !== undefined) {
      ({ excess, isOnly } = await this.#lookAtSpace(found.space, receiving));
    }
    if (excess === undefined && found.isAppLimited) {
      const reserved = await this.#core.quotas.reserveReceipt(this.#space, bytes);
      if ('settle' in reserved) this.#reservation = reserved;
      else {
        excess = reserved;
        isOnly = await this.#isOnly(receiving);
      }
    }
    if (excess !== undefined && !(await mayHeal(isOnly))) throw new QuotaExceeded(excess);
  }

  /** Receives one PUT within the room. `begin` stages its bytes. `finish` makes them durable and resolves with their number; undefined if none. */
  async receive<Staged extends { release(): Promise<void> }>(
    begin: (admit: Admit) => Promise<Staged>,
    finish: (staged: Staged) => Promise<number | undefined>,
  ): Promise<void> {
    let received: number | undefined;
    try {
      const staged = await begin((receiving) => this.admit(receiving));
      try {
        received = await finish(staged);
      } finally {
        await staged.release();
      }
    } finally {
      this.settle(received);
    }
  }

  /** Call once with the number of bytes that are now durable; undefined if none. */
  settle(received: number | undefined): void {
    this.#reservation?.settle(received !== undefined, { bytes: received ?? 0, nodes: 0 });
    this.#reservation = undefined;
  }

  async #lookAtSpace(
    limits: QuotaLimits,
    receiving: Receiving,
  ): Promise<{ readonly excess: Excess | undefined; readonly isOnly: boolean }> {
    for (let looks = 1; ; looks += 1) {
      // Uploads in progress are read first: one that finishes meanwhile counts twice, and none is missed.
      const earlier = receiving.heldBefore();
      const [counters, { pendingBytes }] = await Promise.all([
        this.#core.metadata.readCounters(this.#space),
        this.#core.metadata.readHoldings(this.#space),
      ]);
      const stored = { bytes: storedOf(counters).bytes + pendingBytes + earlier, nodes: 0 };
      const excess = findExcess('Space', limits, stored, { bytes: this.#wanted.bytes, nodes: 0 });
      // PUTs that began earlier are in the way: one that has just ended counts twice for a moment.
      const isFinal = excess === undefined || earlier === 0 || looks === 6;
      if (isFinal) return { excess, isOnly: earlier === 0 && pendingBytes === 0 };
      await receiving.pause();
    }
  }

  async #isOnly(receiving: Receiving): Promise<boolean> {
    if (receiving.heldBefore() > 0) return false;
    return (await this.#core.metadata.readHoldings(this.#space)).pendingBytes === 0;
  }
}

/** Deletes the bytes that a refusal has discarded. Resolves with the error to throw. */
export async function refuse(core: Core, space: Space, excess: Excess): Promise<QuotaExceeded> {
  // If a deletion fails, the sweep deletes the object later.
  await deleteDiscards(core, space).catch(() => undefined);
  return new QuotaExceeded(excess);
}
