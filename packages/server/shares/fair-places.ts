/**
 * A fixed number of places that are held for a moment each, such as connections: the next one goes to the App that holds fewest, and
 * within it to the Space that holds fewest, first in first out. Of many places a few are kept for those that hold none, so that
 * nobody holds all of them when another asks. Waiting is bounded in time and number.
 */
import { QUEUE_WAIT, REJECTIONS } from '../metrics/server-metrics.ts';
import { shareUsedUp } from './exhausted.ts';

export interface FairPlacesOptions {
  /** names the resource in metrics */
  readonly resource: string;
  readonly placesMax: number;
  /** Places that are kept for Apps and Spaces that hold none. */
  readonly keptMax?: number;
  readonly waitingMax: number;
  readonly waitMsMax: number;
  /** for one within its share whose wait was in vain: then the resource itself is in trouble */
  readonly inVain: () => Error;
}

interface Waiter {
  readonly since: number;
  /** nobody is to give a place up for it */
  readonly isPatient: boolean;
  readonly timer: ReturnType<typeof setTimeout>;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

interface SpaceHolder {
  readonly spaceId: string;
  held: number;
  readonly waiting: Set<Waiter>;
}

interface AppHolder {
  readonly appId: string;
  held: number;
  waiting: number;
  readonly spaces: Map<string, SpaceHolder>;
}

export class FairPlaces {
  readonly #options: FairPlacesOptions;
  readonly #kept: number;
  readonly #waits;
  readonly #apps = new Map<string, AppHolder>();
  /** Apps of which something waits, by turns */
  readonly #crowd = new Set<AppHolder>();
  #taken = 0;
  #waiting = 0;

  constructor(options: FairPlacesOptions) {
    this.#options = options;
    this.#kept = options.keptMax ?? Math.floor(options.placesMax / 8);
    this.#waits = QUEUE_WAIT.with({ resource: options.resource });
  }

  get taken(): number {
    return this.#taken;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** `undefined`: there is a place at once. Throws or rejects with RESOURCE_EXHAUSTED, or with what `inVain` makes. */
  take(appId: string, spaceId: string, isPatient = false): Promise<void> | undefined {
    const app = this.#appOf(appId);
    const space = spaceOf(app, spaceId);
    if (this.#mayTake(app, space)) {
      this.#hold(app, space);
      return undefined;
    }
    if (this.#waiting >= this.#options.waitingMax) this.#makeRoomFor(app, space);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#refuse(app, space, waiter, 'waited'), this.#options.waitMsMax);
      const waiter: Waiter = { since: performance.now(), isPatient, timer, resolve, reject };
      space.waiting.add(waiter);
      app.waiting += 1;
      this.#waiting += 1;
      this.#crowd.add(app);
    });
  }

  /** Gives a place back that was taken for this Space. */
  leave(appId: string, spaceId: string): void {
    const app = this.#appOf(appId);
    const space = spaceOf(app, spaceId);
    space.held -= 1;
    app.held -= 1;
    this.#taken -= 1;
    this.#admit();
    this.#forgetIdle(app, space);
  }

  /**
   * Whether this Space should give a place up if it can: no Space of its App holds more, and one that holds none waits, impatiently.
   * Another App that holds none counts too, if no App holds more than this one.
   */
  isOwed(appId: string, spaceId: string): boolean {
    const app = this.#apps.get(appId);
    const space = app?.spaces.get(spaceId);
    if (app === undefined || space === undefined) return false;
    for (const other of app.spaces.values()) if (other.held > space.held) return false;
    for (const other of app.spaces.values()) if (other.held === 0 && hasImpatient(other)) return true;
    for (const other of this.#apps.values()) if (other.held > app.held) return false;
    for (const other of this.#crowd) {
      if (other.held > 0) continue;
      for (const each of other.spaces.values()) if (hasImpatient(each)) return true;
    }
    return false;
  }

  /** Refuses all who wait. */
  refuseAll(error: Error): void {
    for (const app of [...this.#crowd]) {
      for (const space of [...app.spaces.values()]) {
        for (const waiter of [...space.waiting]) {
          this.#endWait(app, space, waiter);
          waiter.reject(error);
        }
      }
    }
  }

  #mayTake(app: AppHolder, space: SpaceHolder): boolean {
    const free = this.#options.placesMax - this.#taken;
    if (free > this.#kept) return true;
    if (free <= 0) return false;
    // The last place of all is for an App that holds none, and not for any number of Spaces of one App.
    return app.held === 0 || (space.held === 0 && free > 1);
  }

  #hold(app: AppHolder, space: SpaceHolder): void {
    space.held += 1;
    app.held += 1;
    this.#taken += 1;
  }

  #admit(): void {
    for (let app = this.#nextApp(); app !== undefined; app = this.#nextApp()) {
      const space = nextSpace(app);
      const [waiter] = space?.waiting ?? [];
      if (space === undefined || waiter === undefined || !this.#mayTake(app, space)) return;
      this.#hold(app, space);
      this.#endWait(app, space, waiter);
      // Its turn is over: among equals the others come first.
      if (this.#crowd.delete(app) && app.waiting > 0) this.#crowd.add(app);
      app.spaces.delete(space.spaceId);
      app.spaces.set(space.spaceId, space);
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

  #endWait(app: AppHolder, space: SpaceHolder, waiter: Waiter): void {
    clearTimeout(waiter.timer);
    space.waiting.delete(waiter);
    app.waiting -= 1;
    this.#waiting -= 1;
    if (app.waiting === 0) this.#crowd.delete(app);
    this.#forgetIdle(app, space);
  }

  /**
   * Of the App that has most waiting, the Space that has most waiting gives way: the newcomer if that is its Space, else the one of
   * the other Space that waited longest.
   */
  #makeRoomFor(newcomer: AppHolder, space: SpaceHolder): void {
    let crowding = newcomer;
    for (const app of this.#crowd) if (app.waiting > crowding.waiting) crowding = app;
    let longest = crowding === newcomer ? space : undefined;
    for (const each of crowding.spaces.values()) {
      if (each.waiting.size > (longest?.waiting.size ?? 0)) longest = each;
    }
    if (longest === space) {
      const error = this.#refusal(newcomer, 'full');
      this.#forgetIdle(newcomer, space);
      throw error;
    }
    const [oldest] = longest?.waiting ?? [];
    if (longest !== undefined && oldest !== undefined) this.#refuse(crowding, longest, oldest, 'full');
  }

  #refuse(app: AppHolder, space: SpaceHolder, waiter: Waiter, reason: string): void {
    const error = this.#refusal(app, reason);
    this.#endWait(app, space, waiter);
    waiter.reject(error);
  }

  /** An App that wants more than an equal part has used its share up. If it is alone, or within its part, the resource is too slow. */
  #refusal({ held, waiting }: AppHolder, reason: string): Error {
    const { resource, placesMax, inVain } = this.#options;
    REJECTIONS.add({ resource, reason }, 1);
    const isOver = this.#apps.size > 1 && held + waiting > placesMax / this.#apps.size;
    return isOver ? shareUsedUp(resource) : inVain();
  }

  #appOf(appId: string): AppHolder {
    let app = this.#apps.get(appId);
    if (app === undefined) {
      app = { appId, held: 0, waiting: 0, spaces: new Map() };
      this.#apps.set(appId, app);
    }
    return app;
  }

  #forgetIdle(app: AppHolder, space: SpaceHolder): void {
    if (space.held > 0 || space.waiting.size > 0) return;
    app.spaces.delete(space.spaceId);
    if (app.spaces.size === 0) this.#apps.delete(app.appId);
  }
}

function spaceOf(app: AppHolder, spaceId: string): SpaceHolder {
  let space = app.spaces.get(spaceId);
  if (space === undefined) {
    space = { spaceId, held: 0, waiting: new Set() };
    app.spaces.set(spaceId, space);
  }
  return space;
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
