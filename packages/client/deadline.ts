/** Time limits and cancelling, over an injectable clock. */

/** The client's sense of time. Injectable, so that tests need not wait. */
export interface Clock {
  /** ms since the epoch */
  now(): number;
  /** Calls `onFire` once after `ms`, unless the returned function is called first. */
  startTimer(ms: number, onFire: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  startTimer: (ms, onFire) => {
    // Timers of runtimes fire at once if they are given more.
    const timer = setTimeout(onFire, Math.min(ms, 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
};

/** Settles as `promise` does, or rejects with the signal's reason as soon as it fires, whichever is first. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    if (signal.aborted) {
      // Nobody waits for the promise any more, so nobody hears of its failure.
      promise.catch(() => undefined);
      reject(signal.reason);
      return;
    }
    const unwatch = watch(signal, () => reject(signal.reason));
    const settle =
      <V>(how: (value: V) => void) =>
      (value: V): void => {
        unwatch();
        how(value);
      };
    promise.then(settle(resolve), settle(reject));
  });
}

/** Waits `ms`; rejects with the signal's reason when it fires first. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal | undefined): Promise<void> {
  let stop: (() => void) | undefined;
  const waiting = new Promise<void>((resolve) => {
    stop = clock.startTimer(ms, resolve);
  });
  return abortable(waiting, signal).finally(() => stop?.());
}

/** One attempt's time limit, joined with the caller's signal. */
export class Deadline {
  /** Fires at the time limit or with the caller's signal. */
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  #isExpired = false;
  #stopTimer: (() => void) | undefined;
  #unwatch: (() => void) | undefined;
  #rejectGuarded: ((reason: unknown) => void) | undefined;

  constructor(clock: Clock, ms: number, caller: AbortSignal | undefined) {
    this.#clock = clock;
    this.signal = this.#controller.signal;
    if (caller?.aborted) {
      this.#fire(caller.reason);
      return;
    }
    if (caller !== undefined) {
      this.#unwatch = watch(caller, () => {
        this.pause();
        this.#fire(caller.reason);
      });
    }
    this.restart(ms);
  }

  /** True once the time limit (not the caller) ended the attempt. */
  isExpired(): boolean {
    return this.#isExpired;
  }

  /** Settles as `promise` does, or rejects as soon as the signal fires. One at a time: an attempt waits for one thing. */
  guard<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      promise.then(resolve, reject);
      if (this.signal.aborted) reject(this.signal.reason);
      else this.#rejectGuarded = reject;
    });
  }

  /** Stops the running timer and starts one of `ms`. */
  restart(ms: number): void {
    this.pause();
    this.#stopTimer = this.#clock.startTimer(ms, () => {
      this.#isExpired = true;
      this.#fire(new Error('time limit'));
    });
  }

  /** Stops the timer; the caller's signal still counts. */
  pause(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  /** Ends the watch: no timer and no listener is left behind. */
  end(): void {
    this.pause();
    this.#unwatch?.();
    this.#unwatch = undefined;
  }

  /** Ends the watch and the attempt itself, and gives up what is still being transferred. */
  cancel(): void {
    this.end();
    this.#fire(new Error('given up'));
  }

  #fire(reason: unknown): void {
    this.#controller.abort(reason);
    this.#rejectGuarded?.(this.signal.reason);
  }
}

/** All that wait for one signal share a listener: one for each attempt costs as much as a request, and Node warns from eleven on. */
const watching = new WeakMap<AbortSignal, { readonly waiting: Set<() => void>; stop(): void }>();

/** Calls `onAbort` when `signal` fires, unless the returned function is called first. The last to go takes the listener away. */
function watch(signal: AbortSignal, onAbort: () => void): () => void {
  let watched = watching.get(signal);
  if (watched === undefined) {
    const waiting = new Set<() => void>();
    const fire = (): void => {
      for (const one of [...waiting]) one();
    };
    signal.addEventListener('abort', fire, { once: true });
    watched = { waiting, stop: () => signal.removeEventListener('abort', fire) };
    watching.set(signal, watched);
  }
  const { waiting, stop } = watched;
  waiting.add(onAbort);
  return () => {
    waiting.delete(onAbort);
    if (waiting.size > 0 || watching.get(signal) !== watched) return;
    watching.delete(signal);
    stop();
  };
}
