/**
 * A semaphore with fair order: the next place goes to the App that holds fewest, and within it to the Space that holds fewest, first in
 * first out. If there are many places, a few are kept for tenants that hold none. Waiting is bounded in time and number.
 */
import { QUEUE_WAIT, REJECTIONS } from '../metrics/server-metrics.ts';
import { type AppShare, ShareTree, type SpaceShare, shareUsedUp } from './share-tree.ts';

export interface FairPlacesOptions {
  /** names the resource in metrics */
  readonly resource: string;
  readonly placesMax: number;
  /** Places that are kept for Apps and Spaces that hold none. */
  readonly keptMax?: number;
  readonly waitingMax: number;
  readonly waitMsMax: number;
  /** the error for a tenant within its share that waited in vain: the resource itself is in trouble */
  readonly inVain: () => Error;
}

interface Waiter {
  readonly since: number;
  /** no one is asked to release a place for it */
  readonly isPatient: boolean;
  readonly timer: ReturnType<typeof setTimeout>;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

type SpaceHolder = SpaceShare<Waiter, undefined>;
type AppHolder = AppShare<Waiter, undefined>;

export class FairPlaces {
  readonly #options: FairPlacesOptions;
  readonly #kept: number;
  readonly #waits;
  readonly #tree = new ShareTree<Waiter>(() => undefined);
  /** Apps of which something waits, by turns */
  readonly #crowd = new Set<AppHolder>();

  constructor(options: FairPlacesOptions) {
    this.#options = options;
    this.#kept = options.keptMax ?? Math.floor(options.placesMax / 8);
    this.#waits = QUEUE_WAIT.with({ resource: options.resource });
  }

  get taken(): number {
    return this.#tree.held;
  }

  get waiting(): number {
    return this.#tree.waiting;
  }

  /** undefined if a place is free at once. Throws or rejects with RESOURCE_EXHAUSTED, or with the error of `inVain`. */
  take(appId: string, spaceId: string, isPatient = false): Promise<void> | undefined {
    const space = this.#tree.spaceOf(appId, spaceId);
    if (this.#mayTake(space)) {
      this.#tree.count(space, 1, 1);
      return undefined;
    }
    if (this.#tree.waiting >= this.#options.waitingMax) this.#makeRoomFor(space);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#refuse(space, waiter, 'waited'), this.#options.waitMsMax);
      const waiter: Waiter = { since: performance.now(), isPatient, timer, resolve, reject };
      this.#tree.enqueue(space, waiter);
      this.#crowd.add(space.app);
    });
  }

  leave(appId: string, spaceId: string): void {
    const space = this.#tree.spaceOf(appId, spaceId);
    this.#tree.count(space, -1, -1);
    this.#admit();
    this.#tree.forgetIdle(space);
  }

  /** A Space releases a place to an impatient one without any, of its App or another, unless a Space of its App, or an App, holds more. */
  isOwed(appId: string, spaceId: string): boolean {
    const app = this.#tree.apps.get(appId);
    const space = app?.spaces.get(spaceId);
    if (app === undefined || space === undefined) return false;
    for (const other of app.spaces.values()) if (other.held > space.held) return false;
    for (const other of app.spaces.values()) if (other.held === 0 && hasImpatient(other)) return true;
    for (const other of this.#tree.apps.values()) if (other.held > app.held) return false;
    for (const other of this.#crowd) {
      if (other.held > 0) continue;
      for (const each of other.spaces.values()) if (hasImpatient(each)) return true;
    }
    return false;
  }

  refuseAll(error: Error): void {
    for (const app of [...this.#crowd]) {
      for (const space of [...app.spaces.values()]) {
        for (const waiter of [...space.waiting]) {
          this.#endWait(space, waiter);
          waiter.reject(error);
        }
      }
    }
  }

  #mayTake({ app, held }: SpaceHolder): boolean {
    const free = this.#options.placesMax - this.#tree.held;
    if (free > this.#kept) return true;
    if (free <= 0) return false;
    // The last free place is for an App that holds none.
    return app.held === 0 || (held === 0 && free > 1);
  }

  #admit(): void {
    for (let app = this.#nextApp(); app !== undefined; app = this.#nextApp()) {
      const space = nextSpace(app);
      const [waiter] = space?.waiting ?? [];
      if (space === undefined || waiter === undefined || !this.#mayTake(space)) return;
      this.#tree.count(space, 1, 1);
      this.#endWait(space, waiter);
      // Its turn is over: among equals the others come first.
      if (this.#crowd.delete(app) && app.waiting > 0) this.#crowd.add(app);
      app.spaces.delete(space.id);
      app.spaces.set(space.id, space);
      this.#waits.observe((performance.now() - waiter.since) / 1000);
      waiter.resolve();
    }
  }

  #nextApp(): AppHolder | undefined {
    let next: AppHolder | undefined;
    for (const app of this.#crowd) {
      if (next === undefined || app.held < next.held) next = app;
      if (app.held === 0) break;
    }
    return next;
  }

  #endWait(space: SpaceHolder, waiter: Waiter): void {
    clearTimeout(waiter.timer);
    this.#tree.dequeue(space, waiter);
    if (space.app.waiting === 0) this.#crowd.delete(space.app);
    this.#tree.forgetIdle(space);
  }

  /** The Space with most waiters within the App with most gives way: the newcomer if it is of that Space, else its oldest waiter. */
  #makeRoomFor(space: SpaceHolder): void {
    const { app: newcomer } = space;
    let crowding = newcomer;
    for (const app of this.#crowd) if (app.waiting > crowding.waiting) crowding = app;
    let longest = crowding === newcomer ? space : undefined;
    for (const each of crowding.spaces.values()) {
      if (each.waiting.size > (longest?.waiting.size ?? 0)) longest = each;
    }
    if (longest === space) {
      const error = this.#refusal(newcomer, 'full');
      this.#tree.forgetIdle(space);
      throw error;
    }
    const [oldest] = longest?.waiting ?? [];
    if (longest !== undefined && oldest !== undefined) this.#refuse(longest, oldest, 'full');
  }

  #refuse(space: SpaceHolder, waiter: Waiter, reason: string): void {
    const error = this.#refusal(space.app, reason);
    this.#endWait(space, waiter);
    waiter.reject(error);
  }

  /** An App with more than an equal part has used up its share. If it is alone or within its part, the resource is too slow. */
  #refusal({ held, waiting }: AppHolder, reason: string): Error {
    const { resource, placesMax, inVain } = this.#options;
    REJECTIONS.add({ resource, reason }, 1);
    const apps = this.#tree.apps.size;
    const isOver = apps > 1 && held + waiting > placesMax / apps;
    return isOver ? shareUsedUp(resource) : inVain();
  }
}

function hasImpatient({ waiting }: SpaceHolder): boolean {
  for (const { isPatient } of waiting) if (!isPatient) return true;
  return false;
}

function nextSpace(app: AppHolder): SpaceHolder | undefined {
  let next: SpaceHolder | undefined;
  for (const space of app.spaces.values()) {
    if (space.waiting.size > 0 && (next === undefined || space.held < next.held)) next = space;
  }
  return next;
}
