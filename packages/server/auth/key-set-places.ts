/** Bounds the concurrent key-set fetches of a process. Hosts whose last fetch failed get at most half of them, because they may hang. */
import { JWKS_FETCHES_MAX } from './auth-limits.ts';

const FAILING_MAX = Math.floor(JWKS_FETCHES_MAX / 2);

export class KeySetPlaces {
  #open = 0;
  #openFailing = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #waitingFailing: (() => void)[] = [];

  /** Takes a place; undefined if one is free at once. Call `end` with the same value afterwards. */
  begin(hasFailed: boolean): Promise<void> | undefined {
    if (this.#isFree(hasFailed)) {
      this.#take(hasFailed);
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    (hasFailed ? this.#waitingFailing : this.#waiting).push(resolve);
    return promise;
  }

  end(hasFailed: boolean): void {
    this.#open -= 1;
    if (hasFailed) this.#openFailing -= 1;
    while (this.#waiting.length > 0 && this.#isFree(false)) this.#give(this.#waiting, false);
    while (this.#waitingFailing.length > 0 && this.#isFree(true)) this.#give(this.#waitingFailing, true);
  }

  #isFree(hasFailed: boolean): boolean {
    return this.#open < JWKS_FETCHES_MAX && (!hasFailed || this.#openFailing < FAILING_MAX);
  }

  #give(waiting: (() => void)[], hasFailed: boolean): void {
    this.#take(hasFailed);
    waiting.shift()?.();
  }

  #take(hasFailed: boolean): void {
    this.#open += 1;
    if (hasFailed) this.#openFailing += 1;
  }
}
