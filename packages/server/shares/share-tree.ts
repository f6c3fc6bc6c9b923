/** The Apps that hold some of a resource or wait for it, and within each App its Spaces. One that does neither is forgotten. */

import { ApiError } from '@holdfast/protocol';

/** 429: the caller's own part is used up regardless of others, and some of it is released soon. */
export function exhausted(message: string, headers: Readonly<Record<string, string>> = {}): ApiError {
  return new ApiError('RESOURCE_EXHAUSTED', message, { retryAfterSeconds: 1, headers });
}

export const shareUsedUp = (resource: string): ApiError =>
  exhausted(`the share of ${resource} is used up; try again shortly`);

export interface AppShare<W, Own> {
  readonly id: string;
  held: number;
  waiting: number;
  readonly spaces: Map<string, SpaceShare<W, Own>>;
}

export interface SpaceShare<W, Own> {
  readonly app: AppShare<W, Own>;
  readonly id: string;
  held: number;
  /** claims that are not released, also those that hold nothing now */
  claims: number;
  /** first in, first out */
  readonly waiting: Set<W>;
  /** what the policy keeps of a Space beside that */
  readonly own: Own;
}

export class ShareTree<W, Own = undefined> {
  readonly apps = new Map<string, AppShare<W, Own>>();
  /** of all */
  held = 0;
  waiting = 0;
  readonly #makeOwn: () => Own;

  constructor(makeOwn: () => Own) {
    this.#makeOwn = makeOwn;
  }

  spaceOf(appId: string, spaceId: string): SpaceShare<W, Own> {
    let app = this.apps.get(appId);
    if (app === undefined) {
      app = { id: appId, held: 0, waiting: 0, spaces: new Map() };
      this.apps.set(appId, app);
    }
    let space = app.spaces.get(spaceId);
    if (space === undefined) {
      space = { app, id: spaceId, held: 0, claims: 0, waiting: new Set(), own: this.#makeOwn() };
      app.spaces.set(spaceId, space);
    }
    return space;
  }

  /** `amount` and `claims` are below 0 where something is given back. */
  count(space: SpaceShare<W, Own>, amount: number, claims: number): void {
    space.held += amount;
    space.claims += claims;
    space.app.held += amount;
    this.held += amount;
  }

  enqueue(space: SpaceShare<W, Own>, waiter: W): void {
    space.waiting.add(waiter);
    space.app.waiting += 1;
    this.waiting += 1;
  }

  /** Does nothing if it does not wait. */
  dequeue(space: SpaceShare<W, Own>, waiter: W): void {
    if (!space.waiting.delete(waiter)) return;
    space.app.waiting -= 1;
    this.waiting -= 1;
  }

  forgetIdle({ app, id, claims, waiting }: SpaceShare<W, Own>): void {
    if (claims > 0 || waiting.size > 0) return;
    app.spaces.delete(id);
    if (app.spaces.size === 0) this.apps.delete(app.id);
  }
}
