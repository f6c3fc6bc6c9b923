/** Large work of this thread, shared among Apps: a little in each round of the event loop; the App served least comes next. */
import { FairQueue } from './fair-queue.ts';

interface Turn {
  readonly pauseMs: number;
  readonly begin: () => void;
}

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
