/**
 * A queue with start-time fair queueing by cost, among Apps and within an App among its Spaces; within a Space it is first in, first
 * out. So work of one share waits for at most one piece of each other share, however much they have queued. Pure: no clock, no timers.
 */

import { ApiError } from '@holdfast/protocol';
import { FairPlaces } from './fair-places.ts';

/** A queued piece of work. Keep it to withdraw the work. */
export interface Ticket<T> {
  readonly item: T;
  readonly cost: number;
  readonly appId: string;
  readonly spaceId: string;
}

interface Flow {
  /** virtual start time of its next work: the cost served since it became busy */
  startsAt: number;
  /** of what waits */
  length: number;
  cost: number;
}

/** Flows by the virtual time of their next work. */
class VirtualTimes<F extends Flow> {
  /** in the order in which they were served; also flows that left, so that leaving and returning gains nothing */
  readonly #flows = new Map<string, F>();
  #flowsMax = 1024;
  #now = 0;
  /** until another flow becomes busy or this one is served */
  #first: F | undefined;

  find(key: string): F | undefined {
    return this.#flows.get(key);
  }

  enter(key: string, make: () => F): F {
    let flow = this.#flows.get(key);
    if (flow === undefined) {
      if (this.#flows.size >= this.#flowsMax) this.#forget();
      flow = make();
      this.#flows.set(key, flow);
    }
    if (flow.length > 0) return flow;
    flow.startsAt = Math.max(this.#now, flow.startsAt);
    this.#first = undefined;
    return flow;
  }

  get busy(): F[] {
    return [...this.#flows.values()].filter(({ length }) => length > 0);
  }

  /** Among equals the one that was served longest ago. */
  get first(): F | undefined {
    let first = this.#first;
    if (first !== undefined && first.length > 0) return first;
    first = undefined;
    for (const flow of this.#flows.values()) {
      if (flow.length > 0 && (first === undefined || flow.startsAt < first.startsAt)) first = flow;
      // None is earlier. So a round of many equal flows looks at all of them once, not for each piece.
      if (first !== undefined && first.startsAt <= this.#now) break;
    }
    this.#first = first;
    return first;
  }

  /** `isLast`: nothing waits any more, so nobody has to wait for what was served. */
  charge(key: string, flow: F, cost: number, isLast: boolean): void {
    this.#first = undefined;
    if (isLast) {
      this.#flows.clear();
      this.#now = 0;
      return;
    }
    this.#now = flow.startsAt;
    flow.startsAt += cost;
    if (this.#flows.size === 1) return;
    this.#flows.delete(key);
    this.#flows.set(key, flow);
  }

  /** Flows whose time has come have nothing to wait for; if there is none, the one that left first. */
  #forget(): void {
    let oldest: string | undefined;
    let busy = 0;
    const before = this.#flows.size;
    for (const [key, { length, startsAt }] of this.#flows) {
      if (length > 0) busy += 1;
      if (length > 0) continue;
      oldest ??= key;
      if (startsAt <= this.#now) this.#flows.delete(key);
    }
    if (this.#flows.size === before && oldest !== undefined) this.#flows.delete(oldest);
    // Many busy flows are not looked at again for each that comes.
    this.#flowsMax = 1024 + 2 * busy;
  }
}

interface Line<T> extends Flow {
  readonly tickets: Set<Ticket<T>>;
}

interface AppLine<T> extends Flow {
  readonly spaces: VirtualTimes<Line<T>>;
}

const IDLE = { startsAt: 0, length: 0, cost: 0 };

export class FairQueue<T> {
  readonly #apps = new VirtualTimes<AppLine<T>>();
  #length = 0;
  #cost = 0;

  get length(): number {
    return this.#length;
  }

  /** Whether more than one App waits. */
  get isShared(): boolean {
    return this.#apps.busy.length > 1;
  }

  /** of everything that waits */
  get cost(): number {
    return this.#cost;
  }

  push(appId: string, spaceId: string, cost: number, item: T): Ticket<T> {
    const app = this.#apps.enter(appId, () => ({ ...IDLE, spaces: new VirtualTimes() }));
    const line = app.spaces.enter(spaceId, () => ({ ...IDLE, tickets: new Set() }));
    const ticket = { item, cost, appId, spaceId };
    line.tickets.add(ticket);
    this.#count(app, line, cost, 1);
    return ticket;
  }

  peek(): Ticket<T> | undefined {
    return this.#apps.first?.spaces.first?.tickets.values().next().value;
  }

  /** Takes the work that comes next, and charges its share with its cost. */
  shift(): T | undefined {
    const app = this.#apps.first;
    const line = app?.spaces.first;
    const ticket = line?.tickets.values().next().value;
    if (app === undefined || line === undefined || ticket === undefined) return undefined;
    const { appId, spaceId, cost, item } = ticket;
    line.tickets.delete(ticket);
    this.#count(app, line, -cost, -1);
    app.spaces.charge(spaceId, line, cost, app.length === 0);
    this.#apps.charge(appId, app, cost, this.#length === 0);
    return item;
  }

  /** Returns false if the work is no longer queued. */
  withdraw(ticket: Ticket<T>): boolean {
    const app = this.#apps.find(ticket.appId);
    const line = app?.spaces.find(ticket.spaceId);
    if (app === undefined || !line?.tickets.delete(ticket)) return false;
    this.#count(app, line, -ticket.cost, -1);
    return true;
  }

  /** The oldest work in the share with the highest queued cost: it is dropped when the queue is full. */
  findCrowding(): Ticket<T> | undefined {
    const app = costliest(this.#apps.busy);
    return costliest(app?.spaces.busy ?? [])
      ?.tickets.values()
      .next().value;
  }

  #count(app: AppLine<T>, line: Line<T>, cost: number, length: number): void {
    for (const flow of [app, line]) {
      flow.cost += cost;
      flow.length += length;
    }
    this.#cost += cost;
    this.#length += length;
  }
}

function costliest<F extends Flow>(flows: readonly F[]): F | undefined {
  let most = flows[0];
  for (const flow of flows) if (most === undefined || flow.cost > most.cost) most = flow;
  return most;
}

interface Turn {
  readonly pauseMs: number;
  readonly begin: () => void;
}

/** Large work of this thread, shared among Apps: a little in each round of the event loop; the App served least comes next. */
export class FairRounds {
  readonly #waiting = new FairQueue<Turn>();
  readonly #costOfRound: number;
  #isGiving = false;

  /** `costOfRound`: work is admitted in one round until its cost reaches this, at least one piece. */
  constructor(costOfRound: number) {
    this.#costOfRound = costOfRound;
  }

  /** Resolves when the work may run, synchronously. Afterwards other work has the thread for `pauseMs`. */
  next(appId: string, spaceId: string, cost: number, pauseMs = 0): Promise<void> {
    return new Promise((begin) => {
      this.#waiting.push(appId, spaceId, cost, { pauseMs, begin });
      if (this.#isGiving) return;
      this.#isGiving = true;
      setImmediate(() => this.#giveRound());
    });
  }

  #giveRound(): void {
    let left = this.#costOfRound;
    let pauseMs = 0;
    while (left > 0) {
      const ticket = this.#waiting.peek();
      if (ticket === undefined) break;
      this.#waiting.shift();
      left -= ticket.cost;
      pauseMs = Math.max(pauseMs, ticket.item.pauseMs);
      ticket.item.begin();
    }
    if (left === this.#costOfRound) {
      this.#isGiving = false;
      return;
    }
    // Work that has started ends in this round.
    setImmediate(() => {
      if (pauseMs > 0) setTimeout(() => this.#giveRound(), pauseMs);
      else this.#giveRound();
    });
  }
}

interface Share {
  readonly appId: string;
  readonly spaceId: string;
}

/**
 * Judging packs, shared out among Apps: few packs at once, because each holds memory, and their work in turns, because a small pack may
 * unpack to very many bytes. One App never holds all places, and a pack that has had much gives way to an App that holds none, or to
 * another Space of its App that holds none.
 */
export class JudgingTurns {
  readonly #places = new FairPlaces({
    resource: 'judgements',
    // Packs in one process: each holds up to 8 MiB of one record, and 1 MiB of what is read.
    placesMax: 4,
    // for Apps that have no pack judged
    keptMax: 1,
    waitingMax: 256,
    // A large pack takes seconds.
    waitMsMax: 30_000,
    inVain: () =>
      new ApiError('SERVICE_UNAVAILABLE', 'too many packs are being judged; repeat the same request', {
        retryAfterSeconds: 5,
      }),
  });
  /** One for each round of the event loop, whatever it costs. */
  readonly #turns = new FairRounds(1);

  /**
   * Resolves when a pack of this Space may be judged. Throws or rejects with RESOURCE_EXHAUSTED or SERVICE_UNAVAILABLE. One that comes
   * again after it gave way makes no other give way.
   */
  async enter({ appId, spaceId }: Share, isAgain: boolean) {
    await this.#places.take(appId, spaceId, isAgain);
    let used = 0;
    return {
      /** core/pack-ports.ts JudgingPlace. Everything else has its turn between. */
      nextTurn: async (cost: number): Promise<boolean> => {
        used += cost;
        // A pack that has cost so many bytes pauses after each turn and gives its place to one that holds none. Coming back costs less.
        const isLong = used > 64 * 1024 * 1024;
        if (isLong && this.#places.isOwed(appId, spaceId)) return false;
        await this.#turns.next(appId, spaceId, cost, isLong ? 10 : 0);
        return true;
      },
      leave: (): void => this.#places.leave(appId, spaceId),
    };
  }
}
