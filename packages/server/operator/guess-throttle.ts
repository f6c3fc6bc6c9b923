/**
 * Slows those who guess tokens and codes. A right token is never held up by it, whoever else guesses from the same address: only
 * an answer that refuses waits. What waits is bounded, and holds up nothing else.
 */
import { OperatorError } from './problem.ts';

const WAIT_MS_MAX = 2000;
/** answers that wait, for one address and for all; a guess beyond is told to come again later */
const WAITING_MAX = 16;
const ALL_WAITING_MAX = 256;
export const RETRY_AFTER_SECONDS = Math.ceil(WAIT_MS_MAX / 1000);

export interface ThrottleWorld {
  /** ms of a clock that never steps back */
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
  /** the one that guessed last comes last */
  readonly #guessers = new Map<string, Guesser>();
  #waiting = 0;

  constructor(world: ThrottleWorld = { now: () => performance.now(), sleep: (ms) => Bun.sleep(ms) }) {
    this.#world = world;
  }

  /** To be awaited before a wrong guess is refused. Rejects with OperatorError (TOO_MANY_GUESSES) if too many wait already. */
  async slow(peer: string): Promise<void> {
    const guesser = this.#note(peer);
    // People mistype.
    const beyond = guesser.guesses - 3;
    if (beyond <= 0) return;
    if (guesser.waiting >= WAITING_MAX || this.#waiting >= ALL_WAITING_MAX) {
      throw new OperatorError(
        'TOO_MANY_GUESSES',
        'too many wrong tokens or codes came from this address: wait a little and give the right one',
      );
    }
    guesser.waiting += 1;
    this.#waiting += 1;
    try {
      // The wait doubles with each further guess.
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
    // The address that has been quiet the longest gives way.
    if (this.#guessers.size > 4096) {
      const [quietest] = this.#guessers.keys();
      if (quietest !== undefined) this.#guessers.delete(quietest);
    }
    return guesser;
  }
}
