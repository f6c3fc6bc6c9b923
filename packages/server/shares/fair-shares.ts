/** Shares one resource among Apps, and an App's part among its Spaces (shares/README.md), by what is held. The unit is the caller's. */
import type { ApiError } from '@holdfast/protocol';
import type { Counter, Gauge, Histogram } from '../metrics/metric.ts';
import {
  QUEUE_WAIT,
  REJECTIONS,
  SHARE_IN_USE,
  SHARE_LIMIT,
  SHARE_WAITING,
} from '../metrics/server-metrics.ts';
import { ShareTree, type SpaceShare as Space, shareUsedUp } from './share-tree.ts';

/** Beyond an equal share an App may hold this multiple of what stays free: 3/4 of all if alone, so the next App finds room. */
const BORROWED_TO_FREE_MAX = 3;

const REFUSAL_REASONS = ['too-large', 'queue-full', 'waited', 'reclaimed'] as const;
type RefusalReason = (typeof REFUSAL_REASONS)[number];

export interface FairSharesOptions {
  /** names the resource in metrics and in the refusal */
  readonly resource: string;
  /** in the caller's unit */
  readonly capacity: number;
  readonly waitMsMax?: number;
  readonly waitersMax?: number;
}

export interface ClaimOptions {
  /** ends the wait; the claim rejects with its reason */
  readonly signal?: AbortSignal | undefined;
  /** Called at most once, if another needs its equal share and this App holds more: release soon. Without it nothing is reclaimed. */
  readonly onReclaim?: (() => void) | undefined;
}

/** `own`: claims that can be called back, oldest first */
type SpaceShare = Space<Waiter, Set<Hold>>;
type AppShare = SpaceShare['app'];
export interface Hold extends ShareHold<SpaceShare> {}

interface Waiter {
  readonly amount: number;
  readonly startedAt: number;
  readonly options: ClaimOptions;
  readonly grant: (hold: Hold) => void;
}

export class FairShares {
  readonly #capacity: number;
  readonly #waitMsMax: number;
  readonly #waitersMax: number;
  readonly #tree = new ShareTree<Waiter, Set<Hold>>(() => new Set());
  readonly #wait: Histogram;
  readonly #waitingGauge: Gauge;
  readonly #inUse: Gauge;
  readonly #refusals: ReadonlyMap<RefusalReason, Counter>;
  /** shared, because thousands of refusals a second must be cheap */
  readonly #refused: ApiError;
  /** reclaimed and not released yet */
  #reclaiming = 0;

  constructor({ resource, capacity, waitMsMax, waitersMax }: FairSharesOptions) {
    this.#capacity = capacity;
    // A caller that is told early to retry can do other work.
    this.#waitMsMax = waitMsMax ?? 1000;
    this.#waitersMax = waitersMax ?? 1024;
    this.#wait = QUEUE_WAIT.with({ resource });
    this.#waitingGauge = SHARE_WAITING.with({ resource });
    SHARE_LIMIT.with({ resource }).set(capacity);
    this.#inUse = SHARE_IN_USE.with({ resource });
    // Created at start, so that the first refusal is an increase.
    this.#refusals = new Map(
      REFUSAL_REASONS.map((reason) => [reason, REJECTIONS.with({ resource, reason })]),
    );
    this.#refused = shareUsedUp(resource);
  }

  /** Whether a request for one unit succeeds at once. */
  get hasPlenty(): boolean {
    // Even one Space that holds all that is held may borrow more: 9/16 of all.
    return this.#tree.waiting === 0 && this.#tree.held <= this.#capacity / 2;
  }

  get capacity(): number {
    return this.#capacity;
  }

  get used(): number {
    return this.#tree.held;
  }

  /** For tests: a share that neither holds nor waits leaves nothing behind. */
  get appCount(): number {
    return this.#tree.apps.size;
  }

  /** A hold at once, or undefined if the caller would have to wait. */
  tryAcquire(app: string, space: string, amount: number, options?: ClaimOptions): Hold | undefined {
    const share = this.#tree.spaceOf(app, space);
    if (share.waiting.size === 0 && this.#fits(share, amount)) return this.#take(share, amount, options);
    this.#tree.forgetIdle(share);
    return undefined;
  }

  /** A hold, at once or after a wait. Throws or rejects with ApiError RESOURCE_EXHAUSTED, or with the signal's reason. */
  acquire(app: string, space: string, amount: number, options: ClaimOptions = {}): Hold | Promise<Hold> {
    const share = this.#tree.spaceOf(app, space);
    if (share.waiting.size === 0 && this.#fits(share, amount)) return this.#take(share, amount, options);
    if (amount > this.#capacity || share.app.waiting >= this.#waitersMax / this.#tree.apps.size) {
      this.#tree.forgetIdle(share);
      throw this.#refusal(amount > this.#capacity ? 'too-large' : 'queue-full');
    }
    return this.#waitFor(share, amount, options);
  }

  /** An equal part among all Apps that are there, and of that an equal part among the App's Spaces. */
  #isEntitled(space: SpaceShare, amount: number): boolean {
    return !this.#isAlone(space) && space.held + amount <= this.#shareOfSpaceIn(space.app);
  }

  #shareOfSpaceIn({ spaces }: AppShare): number {
    return this.#capacity / this.#tree.apps.size / spaces.size;
  }

  #fits(space: SpaceShare, amount: number): boolean {
    const free = this.#capacity - this.#tree.held;
    if (amount > free) return false;
    if (this.#tree.held === 0) return true;
    const left = this.#leftTo(space.app, free);
    // A borrower never overtakes waiting claims.
    if (this.#tree.waiting === 0 && mayBorrow(space, amount, left)) return true;
    return amount <= left && this.#isEntitled(space, amount);
  }

  /** The amount that the App may still take: up to its equal share, or by borrowing. */
  #leftTo({ held }: AppShare, free: number): number {
    const borrowed = (BORROWED_TO_FREE_MAX * free - held) / (BORROWED_TO_FREE_MAX + 1);
    return this.#tree.apps.size === 1
      ? borrowed
      : Math.max(borrowed, this.#capacity / this.#tree.apps.size - held);
  }

  /** With nobody to share with, an equal share is everything; but somebody may come. */
  #isAlone({ app }: SpaceShare): boolean {
    return this.#tree.apps.size === 1 && app.spaces.size === 1;
  }

  #take(share: SpaceShare, amount: number, options: ClaimOptions | undefined): Hold {
    this.#count(share, amount, 1);
    const hold = new ShareHold(this.#endOf, this.#grow, share, amount, options?.onReclaim);
    if (options?.onReclaim !== undefined) share.own.add(hold);
    return hold;
  }

  #count(share: SpaceShare, amount: number, claims: number): void {
    this.#tree.count(share, amount, claims);
    this.#inUse.set(this.#tree.held);
  }

  readonly #grow = (hold: Hold, share: SpaceShare, more: number): boolean => {
    if (hold.isReclaimed || !this.#fits(share, more)) return false;
    this.#count(share, more, 0);
    return true;
  };

  readonly #endOf = (hold: Hold, share: SpaceShare, amount: number, isOver: boolean): void => {
    this.#count(share, -amount, isOver ? -1 : 0);
    if (hold.isReclaimed) this.#reclaiming -= amount;
    if (isOver) {
      share.own.delete(hold);
      this.#tree.forgetIdle(share);
    }
    if (this.#tree.waiting > 0) this.#grantWaiting();
  };

  #waitFor(share: SpaceShare, amount: number, options: ClaimOptions): Promise<Hold> {
    const { promise, resolve, reject } = Promise.withResolvers<Hold>();
    const { signal } = options;
    const giveUp = (reason: unknown): void => {
      this.#leave(share, waiter);
      this.#tree.forgetIdle(share);
      reject(reason);
      // Somebody may have waited behind this one only.
      this.#grantWaiting();
    };
    const timer = setTimeout(() => giveUp(this.#refusal('waited')), this.#waitMsMax);
    const onAbort = (): void => {
      clearTimeout(timer);
      giveUp(signal?.reason);
    };
    const waiter: Waiter = {
      amount,
      options,
      startedAt: performance.now(),
      grant: (hold) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        resolve(hold);
      },
    };
    this.#tree.enqueue(share, waiter);
    this.#waitingGauge.set(this.#tree.waiting);
    if (signal?.aborted === true) queueMicrotask(onAbort);
    else signal?.addEventListener('abort', onAbort, { once: true });
    if (this.#isEntitled(share, amount)) this.#callBack(share, amount);
    return promise;
  }

  #leave(share: SpaceShare, waiter: Waiter): void {
    this.#tree.dequeue(share, waiter);
    this.#waitingGauge.set(this.#tree.waiting);
  }

  /** Gives room to those who hold least, first in first out within a Space, as long as somebody fits. */
  #grantWaiting(): void {
    for (let share = this.#nextToGrant(); share !== undefined; share = this.#nextToGrant()) {
      const waiter = firstOf(share) as Waiter;
      this.#leave(share, waiter);
      this.#wait.observe((performance.now() - waiter.startedAt) / 1000);
      waiter.grant(this.#take(share, waiter.amount, waiter.options));
    }
  }

  /** If somebody within a share waits for more room than there is, nobody borrows meanwhile. */
  #nextToGrant(): SpaceShare | undefined {
    const free = this.#capacity - this.#tree.held;
    let entitled: SpaceShare | undefined;
    let borrower: SpaceShare | undefined;
    for (const app of this.#tree.apps.values()) {
      if (app.waiting === 0) continue;
      const left = this.#leftTo(app, free);
      for (const space of app.spaces.values()) {
        const first = firstOf(space);
        if (first === undefined) continue;
        if (this.#isEntitled(space, first.amount) && first.amount <= left) {
          if (entitled === undefined || holdsLess(space, entitled)) entitled = space;
        } else if (mayBorrow(space, first.amount, left) && first.amount <= free) {
          if (borrower === undefined || holdsLess(space, borrower)) borrower = space;
        }
      }
    }
    if (entitled === undefined) return borrower;
    return (firstOf(entitled) as Waiter).amount <= free ? entitled : undefined;
  }

  /** Asks back what is held beyond equal shares: of the Space that holds most beyond its own, its oldest claims first. */
  #callBack(claimant: SpaceShare, amount: number): void {
    const free = this.#capacity - this.#tree.held;
    let missing = amount - Math.min(free, this.#leftTo(claimant.app, free)) - this.#reclaiming;
    const tried = new Set([claimant]);
    while (missing > 0) {
      const space = this.#mostOver(claimant, tried);
      if (space === undefined) return;
      tried.add(space);
      let excess = space.held - this.#shareOfSpaceIn(space.app);
      for (const hold of space.own) {
        if (missing <= 0 || excess <= 0) break;
        if (hold.isReclaimed) continue;
        missing -= hold.amount;
        excess -= hold.amount;
        this.#reclaiming += hold.amount;
        this.#refusals.get('reclaimed')?.add();
        hold.reclaim();
      }
    }
  }

  /** The Space that is most beyond its share; a Space of another App only if that App holds more than its own share. */
  #mostOver(claimant: SpaceShare, tried: ReadonlySet<SpaceShare>): SpaceShare | undefined {
    let most: SpaceShare | undefined;
    let mostBeyond = 0;
    for (const app of this.#tree.apps.values()) {
      if (app !== claimant.app && app.held <= this.#capacity / this.#tree.apps.size) continue;
      for (const space of app.spaces.values()) {
        const beyond = space.held - this.#shareOfSpaceIn(app);
        if (beyond <= mostBeyond || tried.has(space)) continue;
        most = space;
        mostBeyond = beyond;
      }
    }
    return most;
  }

  #refusal(reason: RefusalReason): ApiError {
    this.#refusals.get(reason)?.add();
    return this.#refused;
  }
}

const firstOf = ({ waiting }: SpaceShare): Waiter | undefined => waiting.values().next().value;

/** The rule by which Apps borrow from what is free, for a Space in what its App may still take. */
function mayBorrow({ held }: SpaceShare, amount: number, left: number): boolean {
  return held + amount <= BORROWED_TO_FREE_MAX * (left - amount);
}

function holdsLess(a: SpaceShare, b: SpaceShare): boolean {
  return a.app.held === b.app.held ? a.held < b.held : a.app.held < b.app.held;
}

/** The hold on a share of a resource (fair-shares.ts). */
type End<Share> = (hold: ShareHold<Share>, share: Share, amount: number, isOver: boolean) => void;
type Grow<Share> = (hold: ShareHold<Share>, share: Share, more: number) => boolean;

class ShareHold<Share> {
  isReclaimed = false;
  readonly #end: End<Share>;
  readonly #tryGrow: Grow<Share>;
  readonly #share: Share;
  readonly #onReclaim: (() => void) | undefined;
  #amount: number;
  #isOver = false;

  constructor(
    end: End<Share>,
    grow: Grow<Share>,
    share: Share,
    amount: number,
    onReclaim: (() => void) | undefined,
  ) {
    this.#end = end;
    this.#tryGrow = grow;
    this.#share = share;
    this.#amount = amount;
    this.#onReclaim = onReclaim;
  }

  get amount(): number {
    return this.#amount;
  }

  /** Gives everything back. A second call does nothing. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const amount = this.#amount;
    this.#amount = 0;
    this.#end(this, this.#share, amount, true);
  }

  shrinkTo(amount: number): void {
    const less = this.#amount - amount;
    if (this.#isOver || less <= 0) return;
    this.#amount = amount;
    this.#end(this, this.#share, less, false);
  }

  /** Holds `more` in addition, at once, or answers false. */
  tryGrow(more: number): boolean {
    if (this.#isOver || !this.#tryGrow(this, this.#share, more)) return false;
    this.#amount += more;
    return true;
  }

  reclaim(): void {
    this.isReclaimed = true;
    this.#onReclaim?.();
  }
}
