/** Orders for the thread that writes rows: it gets no more at once than it makes durable in a moment, so Apps and Spaces share it. */
import type { Space } from '../../../core/model.ts';
import { QUEUE_WAIT, REJECTIONS } from '../../../metrics/server-metrics.ts';
import { exhausted } from '../../../shares/exhausted.ts';
import { FairQueue } from '../../../shares/fair-queue.ts';
import type { Order } from './writer-messages.ts';

const RESOURCE = 'transactions';

/** Orders of the store itself, such as its background work. */
const OWN: Space = { appId: '', spaceId: '' };

interface WaitingOrder {
  readonly order: Order;
  readonly cost: number;
  /** by `performance.now()` */
  readonly since: number;
  refuse(error: Error): void;
}

export class OrderQueue {
  readonly #queue = new FairQueue<WaitingOrder>();
  readonly #waits = QUEUE_WAIT.with({ resource: RESOURCE });

  get length(): number {
    return this.#queue.length;
  }

  /** `refuse` is called if the order has to give way: then it was not begun. */
  push(order: Order, space: Space | undefined, cost: number, refuse: (error: Error) => void): void {
    const { appId, spaceId } = space ?? OWN;
    this.#queue.push(appId, spaceId, cost, { order, cost, since: performance.now(), refuse });
    while (this.#queue.cost > 100_000 && this.#queue.length > 1) this.#refuseOldest('full');
  }

  /** Takes the orders that come next, while the thread works on `workingCost`, and calls `taken` with each order's cost. */
  take(workingCost: number, taken: (id: number, cost: number) => void): Order[] {
    const orders: Order[] = [];
    const now = performance.now();
    let cost = workingCost;
    for (let next = this.#queue.peek(); next !== undefined; next = this.#queue.peek()) {
      // The largest commit of root refs costs a little less.
      if (cost > 0 && cost + next.cost > 1_100) break;
      cost += next.cost;
      const { order, since } = next.item;
      this.#queue.shift();
      this.#waits.observe((now - since) / 1000);
      taken(order[0], next.cost);
      orders.push(order);
    }
    this.#refuseLate(now);
    return orders;
  }

  #refuseLate(now: number): void {
    while (this.#queue.length > 0) {
      // The oldest order of the share that has most waiting, while others wait too, and while none does.
      const waitMsMax = this.#queue.isShared ? 5_000 : 30_000;
      const oldest = this.#queue.findCrowding();
      if (oldest === undefined || now - oldest.item.since <= waitMsMax) return;
      this.#refuseOldest('late');
    }
  }

  #refuseOldest(reason: 'full' | 'late'): void {
    const oldest = this.#queue.findCrowding();
    if (oldest === undefined) return;
    this.#queue.withdraw(oldest);
    REJECTIONS.add({ resource: RESOURCE, reason }, 1);
    oldest.item.refuse(exhausted('too many changes of this Space wait to be written; try again shortly'));
  }
}

type CostOf = (input: never) => number;

/** About how many rows a transaction reads or writes, where its input says that they are many. */
const ROWS: Readonly<Record<string, CostOf>> = {
  commitRootRefs: ({ hashes }: { hashes: readonly unknown[] }) => hashes.length,
  claimCandidates: ({ limit }: { limit: number }) => limit,
  findLeftoverClaims: ({ limit }: { limit: number }) => limit,
  settleClaims: ({ claims }: { claims: readonly unknown[] }) => claims.length,
  settleDiscards: ({ due }: { due: readonly unknown[] }) => due.length,
  leaseRows: ({ hashes }: { hashes: readonly unknown[] }) => hashes.length,
  beginPack: ({ records, quotas }: { records: readonly unknown[]; quotas: unknown }) =>
    quotas === undefined ? 0 : records.length,
  // A node that a pack brings is a row, a content row, and a count of its parent's.
  publishGroup: ({ records }: { records: readonly unknown[] }) => records.length * 3,
  moveLive: ({ moves }: { moves: readonly unknown[] }) => moves.length,
  finishUpload: ({ inlineBytes }: { inlineBytes?: Uint8Array | undefined }) =>
    // 4 KiB of content in a row cost as much as a small row.
    (inlineBytes?.length ?? 0) / 4_096,
};

/** `name`: of core's named transactions. */
export function costOf(name: string, input: unknown): number {
  const rows = ROWS[name];
  return rows === undefined ? 1 : 1 + rows(input as never);
}
