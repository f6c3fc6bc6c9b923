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
    const timer = setTimeout(onFire, ms);
    return () => clearTimeout(timer);
  },
};

/** Settles as `promise` does, or rejects with the signal's reason as soon as it fires, whichever is first. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    if (signal.aborted) {
      // The loser's failure is of no interest to anyone any more.
      promise.catch(() => undefined);
      onAbort();
      return;
    }
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
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
export interface Deadline {
  /** Fires at the time limit or with the caller's signal. */
  readonly signal: AbortSignal;
  /** True once the time limit (not the caller) ended the attempt. */
  isExpired(): boolean;
  /** Stops the running timer and starts one of `ms`. */
  restart(ms: number): void;
  /** Stops the timer; the caller's signal still counts. */
  pause(): void;
  /** Ends the watch: no timer and no listener is left behind. */
  end(): void;
  /** Ends the watch and the attempt itself: what is still being transferred is given up. */
  cancel(): void;
}

export function startDeadline(clock: Clock, ms: number, caller: AbortSignal | undefined): Deadline {
  const controller = new AbortController();
  let expired = false;
  let stopTimer: (() => void) | undefined;
  const pause = (): void => {
    stopTimer?.();
    stopTimer = undefined;
  };
  const restart = (limitMs: number): void => {
    pause();
    stopTimer = clock.startTimer(limitMs, () => {
      expired = true;
      controller.abort(new Error('time limit'));
    });
  };
  const onCallerAbort = (): void => {
    pause();
    controller.abort(caller?.reason);
  };
  if (caller?.aborted) onCallerAbort();
  else {
    caller?.addEventListener('abort', onCallerAbort, { once: true });
    restart(ms);
  }
  const end = (): void => {
    pause();
    caller?.removeEventListener('abort', onCallerAbort);
  };
  const cancel = (): void => {
    end();
    controller.abort(new Error('given up'));
  };
  return { signal: controller.signal, isExpired: () => expired, restart, pause, end, cancel };
}
