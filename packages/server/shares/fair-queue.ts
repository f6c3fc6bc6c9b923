/**
 * A queue with start-time fair queueing by cost, among Apps and within an App among its Spaces; within a Space it is first in, first
 * out. So work of one share waits for at most one piece of each other share, however much they have queued. Pure: no clock, no timers.
 */

/** A queued piece of work. Keep it to withdraw the work. */
export interface Ticket<T> {
  readonly item: T;
  readonly cost: number;
  readonly appId: string;
  readonly spaceId: string;
}

interface Flow<W> {
  readonly key: string;
  /** virtual start time of its next work: the cost served since it became busy */
  startsAt: number;
  readonly waiting: W;
}

/** Flows by the virtual time of their next work: a binary heap. */
class VirtualTimes<W> {
  readonly #heap: Flow<W>[] = [];
  readonly #busy = new Map<string, Flow<W>>();
  /** earliest start of a share that left, so that leaving and returning gains nothing */
  readonly #resting = new Map<string, number>();
  #now = 0;

  find(key: string): W | undefined {
    return this.#busy.get(key)?.waiting;
  }

  enter(key: string, waiting: W): W {
    const startsAt = Math.max(this.#now, this.#resting.get(key) ?? 0);
    this.#resting.delete(key);
    const flow = { key, startsAt, waiting };
    this.#busy.set(key, flow);
    this.#heap.push(flow);
    this.#rise(this.#heap.length - 1);
    return waiting;
  }

  get size(): number {
    return this.#busy.size;
  }

  get first(): W | undefined {
    return this.#heap[0]?.waiting;
  }

  values(): Iterable<Flow<W>> {
    return this.#busy.values();
  }

  /** Charges the first flow; `isOver`: nothing more of it waits. */
  charge(cost: number, isOver: boolean): void {
    const flow = this.#heap[0];
    if (flow === undefined) return;
    this.#now = flow.startsAt;
    flow.startsAt += cost;
    if (isOver) this.#removeFirst(flow);
    else this.#sink();
  }

  #removeFirst(flow: Flow<W>): void {
    this.#busy.delete(flow.key);
    const last = this.#heap.pop();
    if (last !== undefined && last !== flow) {
      this.#heap[0] = last;
      this.#sink();
    }
    if (this.#heap.length === 0) {
      this.#resting.clear();
      this.#now = 0;
      return;
    }
    if (flow.startsAt <= this.#now) return;
    if (this.#resting.size >= 1024) this.#forget();
    this.#resting.set(flow.key, flow.startsAt);
  }

  /** Those whose time has come have nothing left to wait for; if there is none, the one that left first. */
  #forget(): void {
    const before = this.#resting.size;
    for (const [key, startsAt] of this.#resting) if (startsAt <= this.#now) this.#resting.delete(key);
    const [oldest] = this.#resting.keys();
    if (this.#resting.size === before && oldest !== undefined) this.#resting.delete(oldest);
  }

  #rise(from: number): void {
    const heap = this.#heap;
    const flow = heap[from] as Flow<W>;
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] as Flow<W>;
      if (above.startsAt <= flow.startsAt) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = flow;
  }

  #sink(): void {
    const heap = this.#heap;
    const flow = heap[0] as Flow<W>;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      const left = heap[child];
      if (left === undefined) break;
      const right = heap[child + 1];
      if (right !== undefined && right.startsAt < left.startsAt) child += 1;
      const below = heap[child] as Flow<W>;
      // A flow that was just served comes after its equals.
      if (below.startsAt > flow.startsAt) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = flow;
  }
}

/** Work of one Space in order. */
interface Line<T> {
  readonly tickets: Set<Ticket<T>>;
  cost: number;
}

interface AppLine<T> {
  readonly spaces: VirtualTimes<Line<T>>;
  cost: number;
}

export class FairQueue<T> {
  readonly #apps = new VirtualTimes<AppLine<T>>();
  #length = 0;
  #cost = 0;

  get length(): number {
    return this.#length;
  }

  /** Whether more than one App waits. */
  get isShared(): boolean {
    return this.#apps.size > 1;
  }

  /** of everything that waits */
  get cost(): number {
    return this.#cost;
  }

  push(appId: string, spaceId: string, cost: number, item: T): Ticket<T> {
    const app = this.#apps.find(appId) ?? this.#apps.enter(appId, { spaces: new VirtualTimes(), cost: 0 });
    const line = app.spaces.find(spaceId) ?? app.spaces.enter(spaceId, { tickets: new Set(), cost: 0 });
    const ticket = { item, cost, appId, spaceId };
    line.tickets.add(ticket);
    this.#count(app, line, cost, 1);
    return ticket;
  }

  /** The next work; undefined if the queue is empty. */
  peek(): Ticket<T> | undefined {
    for (;;) {
      const spaces = this.#apps.first?.spaces;
      const line = spaces?.first;
      if (spaces === undefined || line === undefined) return undefined;
      for (const ticket of line.tickets) return ticket;
      // All that the Space had was withdrawn.
      spaces.charge(0, true);
      this.#apps.charge(0, spaces.first === undefined);
    }
  }

  /** Takes the work that comes next, and charges its share with its cost. */
  shift(): T | undefined {
    const ticket = this.peek();
    const app = this.#apps.first;
    const line = app?.spaces.first;
    if (ticket === undefined || app === undefined || line === undefined) return undefined;
    line.tickets.delete(ticket);
    this.#count(app, line, -ticket.cost, -1);
    app.spaces.charge(ticket.cost, line.tickets.size === 0);
    this.#apps.charge(ticket.cost, app.spaces.first === undefined);
    return ticket.item;
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
    let crowd: AppLine<T> | undefined;
    for (const { waiting } of this.#apps.values()) {
      if (waiting.cost > (crowd?.cost ?? 0)) crowd = waiting;
    }
    let longest: Line<T> | undefined;
    for (const { waiting } of crowd?.spaces.values() ?? []) {
      if (waiting.cost > (longest?.cost ?? 0)) longest = waiting;
    }
    for (const ticket of longest?.tickets ?? []) return ticket;
    return undefined;
  }

  #count(app: AppLine<T>, line: Line<T>, cost: number, length: number): void {
    app.cost += cost;
    line.cost += cost;
    this.#cost += cost;
    this.#length += length;
  }
}
