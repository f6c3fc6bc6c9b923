/** Slows down guessing of tokens and codes. Only refusals wait, so a valid token is never delayed. Their number is bounded. */
import { OperatorError } from './problem.ts';

const WAIT_MS_MAX = 2000;
export const RETRY_AFTER_SECONDS = Math.ceil(WAIT_MS_MAX / 1000);

export interface ThrottleWorld {
  /** monotonic ms */
  now(): number;
  sleep(ms: number): Promise<unknown>;
}

interface Guesser {
  guesses: number;
  waiting: number;
  lastAt: number;
}

export class GuessThrottle {
  readonly #world: ThrottleWorld;
  /** ordered by last guess, the newest last */
  readonly #guessers = new Map<string, Guesser>();
  #waiting = 0;

  constructor(world: ThrottleWorld = { now: () => performance.now(), sleep: (ms) => Bun.sleep(ms) }) {
    this.#world = world;
  }

  /** Await this before refusing a wrong guess. Rejects with OperatorError TOO_MANY_GUESSES if too many already wait. */
  async slow(peer: string): Promise<void> {
    const guesser = this.#note(peer);
    // Allows for typing errors.
    const beyond = guesser.guesses - 3;
    if (beyond <= 0) return;
    // If so many wait, of one address or of all, further guesses are told to come again later.
    if (guesser.waiting >= 16 || this.#waiting >= 256) {
      throw new OperatorError(
        'TOO_MANY_GUESSES',
        'too many wrong tokens or codes came from this address: wait a little and give the right one',
      );
    }
    guesser.waiting += 1;
    this.#waiting += 1;
    try {
      // The wait doubles with each guess.
      await this.#world.sleep(Math.min(WAIT_MS_MAX, 100 * 2 ** Math.min(beyond - 1, 10)));
    } finally {
      guesser.waiting -= 1;
      this.#waiting -= 1;
    }
  }

  #note(peer: string): Guesser {
    const now = this.#world.now();
    const known = this.#guessers.get(peer);
    const isFresh = known !== undefined && (known.waiting > 0 || now - known.lastAt < 60_000);
    const guesser = isFresh ? known : { guesses: 0, waiting: 0, lastAt: now };
    guesser.guesses += 1;
    guesser.lastAt = now;
    this.#guessers.delete(peer);
    this.#guessers.set(peer, guesser);
    // Evicts the address with the oldest guess.
    if (this.#guessers.size > 4096) {
      const [quietest] = this.#guessers.keys();
      if (quietest !== undefined) this.#guessers.delete(quietest);
    }
    return guesser;
  }
}
