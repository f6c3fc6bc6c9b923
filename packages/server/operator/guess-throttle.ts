/**
 * Slows those who guess tokens and codes. A right token is never held up by it, whoever else guesses from the same address: only
 * an answer that refuses waits. What waits is bounded, and holds up nothing else.
 */
import { OperatorError } from './problem.ts';

/** wrong ones in a row that are answered at once: people mistype */
const FREE_GUESSES = 3;
/** ms; the first wait, which doubles with each further guess */
const WAIT_MS_MIN = 100;
const WAIT_MS_MAX = 2000;
/** ms without a guess after which an address begins anew */
const FORGET_MS = 60_000;
/** answers that wait, for one address and for all; a guess beyond is told to come again later */
const WAITING_MAX = 16;
const ALL_WAITING_MAX = 256;
/** addresses that are remembered; the one that has been quiet the longest gives way */
const PEERS_MAX = 4096;
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

const REAL_WORLD: ThrottleWorld = { now: () => performance.now(), sleep: (ms) => Bun.sleep(ms) };

export class GuessThrottle {
  readonly #world: ThrottleWorld;
  /** the one that guessed last comes last */
  readonly #guessers = new Map<string, Guesser>();
  #waiting = 0;

  constructor(world: ThrottleWorld = REAL_WORLD) {
    this.#world = world;
  }

  /** To be awaited before a wrong guess is refused. Rejects with OperatorError (TOO_MANY_GUESSES) if too many wait already. */
  async slow(peer: string): Promise<void> {
    const guesser = this.#note(peer);
    const beyond = guesser.guesses - FREE_GUESSES;
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
      await this.#world.sleep(Math.min(WAIT_MS_MAX, WAIT_MS_MIN * 2 ** Math.min(beyond - 1, 10)));
    } finally {
      guesser.waiting -= 1;
      this.#waiting -= 1;
    }
  }

  #note(peer: string): Guesser {
    const now = this.#world.now();
    const known = this.#guessers.get(peer);
    const isFresh = known !== undefined && (known.waiting > 0 || now - known.lastAt < FORGET_MS);
    const guesser = isFresh ? known : { guesses: 0, waiting: 0, lastAt: now };
    guesser.guesses += 1;
    guesser.lastAt = now;
    this.#guessers.delete(peer);
    this.#guessers.set(peer, guesser);
    if (this.#guessers.size > PEERS_MAX) {
      const [quietest] = this.#guessers.keys();
      if (quietest !== undefined) this.#guessers.delete(quietest);
    }
    return guesser;
  }
}
