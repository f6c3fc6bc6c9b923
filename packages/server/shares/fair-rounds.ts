/**
 * Work of this thread that comes in large pieces, shared out among Apps: each round of the event loop has little of it, so that
 * everything else has its turn between, and whoever had least comes next.
 */
import { FairQueue } from './fair-queue.ts';

interface Turn {
  readonly pauseMs: number;
  readonly begin: () => void;
}

export class FairRounds {
  readonly #waiting = new FairQueue<Turn>();
  readonly #costOfRound: number;
  #isGiving = false;

  /** `costOfRound`: turns are given in one round of the event loop until they cost so much together, at least one. */
  constructor(costOfRound: number) {
    this.#costOfRound = costOfRound;
  }

  /** Resolves when the work may be done, in the steps that follow at once. Afterwards everything else has the thread for `pauseMs`. */
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
    // What was begun is done in this round.
    setImmediate(() => {
      if (pauseMs > 0) setTimeout(() => this.#giveRound(), pauseMs);
      else this.#giveRound();
    });
  }
}
