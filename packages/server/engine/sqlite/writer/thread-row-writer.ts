/** Writes rows in a thread, so this one never waits for the disk. One message per turn; commits are made known before answers. */

import type { Hash } from '@holdfast/protocol';
import type { Space } from '../../../core/model.ts';
import type { LeaseWindow } from '../../../core/node-row.ts';
import type { TransactionBody } from '../../../core/ports.ts';
import { StoreUnavailable } from '../../../core/store-failure.ts';
import { TRANSACTIONS } from '../../../core/transactions.ts';
import type { Maintained, Settlements, SweepCutoffs } from '../../../core/upkeep-ports.ts';
import { QUEUE_WAIT, REJECTIONS } from '../../../metrics/server-metrics.ts';
import { FairQueue } from '../../../shares/fair-queue.ts';
import { exhausted } from '../../../shares/share-tree.ts';
import type { RowWriter, RowWriterEvents, RowWriterSettings } from './row-writer.ts';
import {
  type FromWriter,
  type Order,
  packMessage,
  packOrders,
  RENEWED_NUMBERS,
  unpackError,
  unpackMessage,
  type WriterVerb,
} from './writer-messages.ts';

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

/** Orders for the thread that writes rows: it gets no more at once than it makes durable in a moment, so Apps and Spaces share it. */
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

/** The thread's first file. It lies beside this one, with the same name in the sources and in a build. */
const ENTRY = import.meta.url.endsWith('.ts') ? './writer-thread.ts' : './writer-thread.js';
const NAMES = new Map<unknown, string>(Object.entries(TRANSACTIONS).map(([name, body]) => [body, name]));

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** 0 until the order is sent */
  cost: number;
}

export class ThreadRowWriter implements RowWriter {
  readonly #events: RowWriterEvents;
  readonly #thread: Worker;
  readonly #ended: Promise<void>;
  readonly #waiting = new Map<number, Waiting>();
  readonly #orders = new OrderQueue();
  /** cost of the orders that the thread works on */
  #workingCost = 0;
  #lastId = 0;
  #isSendDue = false;
  #sentAt = 0;
  /** ms from the last message to its answer */
  #workMs = 0;
  #restUntil = 0;
  #resting: ReturnType<typeof setTimeout> | undefined;
  /** orders that the rest is for: those that wait, and those that were just answered if they ask again */
  #expected = 0;
  #isClosing = false;
  #fatal: Error | undefined;
  #idle: (() => void) | undefined;

  constructor(settings: RowWriterSettings, events: RowWriterEvents) {
    this.#events = events;
    this.#thread = new Worker(new URL(ENTRY, import.meta.url));
    this.#thread.addEventListener('message', ({ data }: MessageEvent<unknown>) =>
      this.#hear(unpackMessage(data)),
    );
    this.#thread.addEventListener('error', ({ message }) => {
      this.#fail(new Error(`the thread that writes rows failed: ${message}`));
    });
    this.#ended = new Promise((resolve) => {
      this.#thread.addEventListener('close', () => {
        if (!this.#isClosing) this.#fail(new Error('the thread that writes rows has ended'));
        resolve();
      });
    });
    this.#thread.postMessage(settings);
  }

  transact<T, I>(space: Space, body: TransactionBody<T, I>, input: I): Promise<T> {
    const name = NAMES.get(body);
    if (name === undefined)
      return Promise.reject(new Error('only transactions with a name cross to another thread'));
    return this.#order('transact', [space, name, input], space, costOf(name, input));
  }

  renewReady(space: Space, hash: Hash, durationMs: number): Promise<LeaseWindow | undefined> {
    return this.#order('renewReady', [space, hash, durationMs], space);
  }

  maintain(cutoffs: SweepCutoffs): Promise<Maintained> {
    return this.#order('maintain', [cutoffs]);
  }

  emptyLog(): Promise<void> {
    return this.#order('emptyLog', []);
  }

  insertStoreValue(name: string, value: string): Promise<string> {
    return this.#order('insertStoreValue', [name, value]);
  }

  removeStoreValue(name: string): Promise<void> {
    return this.#order('removeStoreValue', [name]);
  }

  settle<K extends keyof Settlements>(kind: K, rows: Settlements[K]): Promise<void> {
    return this.#order('settle', [kind, rows]);
  }

  async drain(): Promise<void> {
    this.#isClosing = true;
    if (this.#waiting.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
    });
  }

  close(): Promise<void> {
    this.#send(true);
    return this.#ended;
  }

  #order<T>(verb: WriterVerb, parameters: readonly unknown[], space?: Space, cost = 1): Promise<T> {
    if (this.#fatal !== undefined) return Promise.reject(this.#fatal);
    if (this.#isClosing) return Promise.reject(new StoreUnavailable('the store is closing: try again later'));
    return new Promise<T>((resolve, reject) => {
      this.#lastId += 1;
      const id = this.#lastId;
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject, cost: 0 });
      this.#orders.push([id, verb, ...parameters], space, cost, (error) => {
        this.#waiting.delete(id);
        reject(error);
        if (this.#waiting.size === 0) this.#idle?.();
      });
      this.#sendSoon();
    });
  }

  /**
   * While the thread works, new orders wait, and then share a commit. They are sent early once there are as many as it works on, so
   * that it never waits for them; if commits take long, they wait, so that there are fewer commits. Clients that were just
   * answered may ask again: they have two turns of the event loop to join, and if there are several, a share of the time of a
   * commit, which ends when all of them have.
   */
  #sendSoon(): void {
    if (this.#resting !== undefined && this.#orders.length >= this.#expected) this.#sendRested();
    if (this.#isSendDue || this.#orders.length === 0) return;
    const working = this.#waiting.size - this.#orders.length;
    // So that more orders can join, the next message waits for a tenth of the last commit's time, if a timer can be so short.
    if (working > 0 && (this.#workMs * 0.1 >= 1 || this.#orders.length < working)) return;
    this.#isSendDue = true;
    setImmediate(this.#sendRested);
  }

  readonly #sendRested = (): void => {
    clearTimeout(this.#resting);
    this.#resting = undefined;
    const restMs = this.#restUntil - performance.now();
    const isRest = restMs >= 1 && this.#orders.length < this.#expected;
    if (isRest) this.#resting = setTimeout(this.#sendRested, restMs);
    else setImmediate(() => this.#send(false));
  };

  #send(isLast: boolean): void {
    this.#isSendDue = false;
    const orders = this.#orders.take(this.#workingCost, this.#noteSent);
    if (orders.length === 0 && !isLast) return;
    this.#thread.postMessage(packMessage({ ...packOrders(orders), isLast }));
    this.#sentAt = performance.now();
  }

  readonly #noteSent = (id: number, cost: number): void => {
    const waiting = this.#waiting.get(id);
    if (waiting !== undefined) waiting.cost = cost;
    this.#workingCost += cost;
  };

  /** Makes commits known before it gives the answers, so that a read after an answer sees the commit. */
  #hear({ commits, renewed, outcomes, fatal }: FromWriter): void {
    for (const committed of commits) this.#events.onCommitted(committed);
    for (let at = 0; at < renewed.length; at += RENEWED_NUMBERS) {
      const [id, leaseStartedAt, leaseExpiresAt] = renewed.slice(at, at + RENEWED_NUMBERS) as [
        number,
        number,
        number,
      ];
      this.#settle(id)?.resolve({ leaseStartedAt, leaseExpiresAt });
    }
    for (const [id, isDone, value] of outcomes) {
      const waiting = this.#settle(id);
      if (isDone) waiting?.resolve(value);
      else waiting?.reject(unpackError(value));
    }
    if (fatal !== undefined) this.#fail(unpackError(fatal));
    const now = performance.now();
    const answers = outcomes.length + renewed.length / RENEWED_NUMBERS;
    const isCrowd = answers > 1 || this.#orders.length > 0;
    this.#expected = answers + this.#orders.length;
    this.#workMs = now - this.#sentAt;
    this.#restUntil = isCrowd ? now + Math.min(this.#workMs * 0.1, 3) : 0;
    if (this.#waiting.size === 0) this.#idle?.();
    else this.#sendSoon();
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    this.#workingCost -= waiting?.cost ?? 0;
    return waiting;
  }

  /** After this nothing is written any more; the process has to end and start again from what is durable. */
  #fail(error: Error): void {
    if (this.#fatal !== undefined) return;
    this.#fatal = error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
    this.#idle?.();
    this.#events.onFatal(error);
  }
}
