/** Request bodies in progress: cuts off those that are too slow and those whose share is reclaimed. */
import { ApiError } from '@holdfast/protocol';
import type { Awaitable } from '../core/awaitable.ts';
import { exhausted } from '../shares/exhausted.ts';
import { BODY_BYTES_PER_SECOND_MIN, BODY_PACE_SECONDS } from './http-limits.ts';

const LOOK_SECONDS = 5;
const LOOKS = BODY_PACE_SECONDS / LOOK_SECONDS;
const BYTES_OF_LOOK_MIN = BODY_BYTES_PER_SECOND_MIN * LOOK_SECONDS;

/** The connection cannot be reused: the rest of the body would have to be read first. */
const CLOSING = { connection: 'close' };

export class BodyWatch {
  readonly #bodies = new Set<WatchedBody>();
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Until `end`. */
  watch(): WatchedBody {
    const body = new WatchedBody(this);
    this.#bodies.add(body);
    if (this.#timer === undefined) {
      this.#timer = setInterval(() => this.look(), LOOK_SECONDS * 1000);
      this.#timer.unref();
    }
    return body;
  }

  /** Called every `LOOK_SECONDS`. Most bodies arrive at once, one after another, so the timer stops only after a call that finds none. */
  look(): void {
    for (const body of this.#bodies) body.look();
    if (this.#bodies.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  forget(body: WatchedBody): void {
    this.#bodies.delete(body);
  }
}

export class WatchedBody {
  readonly #watch: BodyWatch;
  /** bytes that came between the last looks, the latest last */
  readonly #looks: number[] = [];
  #bytes = 0;
  #isAwaited = false;
  #failure: ApiError | undefined;
  #fail: ((error: ApiError) => void) | undefined;

  constructor(watch: BodyWatch) {
    this.#watch = watch;
  }

  /** Resolves as `reading` does; rejects when the body is cut off. */
  bring<T>(reading: Promise<T>): Promise<T> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    this.#isAwaited = true;
    return new Promise((resolve, reject) => {
      this.#fail = reject;
      reading.then(
        (bytes) => {
          this.#isAwaited = false;
          resolve(bytes);
        },
        (error: unknown) => reject(error),
      );
    });
  }

  /** Resolves with the result of `use` for the whole body. The watch ends before `use` is called. */
  bringWhole<T, R>(reading: Promise<T>, use: (bytes: T) => Awaitable<R>): Promise<R> {
    this.#isAwaited = true;
    return new Promise((resolve, reject) => {
      this.#fail = (failure) => {
        this.end();
        reject(failure);
      };
      reading.then(
        (bytes) => {
          if (this.#failure !== undefined) return;
          this.end();
          try {
            resolve(use(bytes));
          } catch (error) {
            reject(error);
          }
        },
        (error: unknown) => {
          this.end();
          reject(error);
        },
      );
    });
  }

  note(bytes: number): void {
    this.#bytes += bytes;
  }

  end(): void {
    this.#watch.forget(this);
  }

  /** Another tenant within its share needs this body's share. */
  giveWay(): void {
    this.#cut(exhausted('other callers needed the memory that this body held; try again shortly', CLOSING));
  }

  look(): void {
    // If the server has not read more, the sender may not be to blame.
    this.#looks.push(this.#isAwaited ? this.#bytes : Math.max(this.#bytes, BYTES_OF_LOOK_MIN));
    this.#bytes = 0;
    if (this.#looks.length <= LOOKS) return;
    this.#looks.shift();
    const received = this.#looks.reduce((sum, bytes) => sum + bytes, 0);
    if (received >= BYTES_OF_LOOK_MIN * LOOKS) return;
    this.#cut(
      new ApiError(
        'INVALID_REQUEST',
        `the body came too slowly: less than ${BODY_BYTES_PER_SECOND_MIN} bytes/s over ${BODY_PACE_SECONDS} s; send it again over a better connection`,
        { headers: CLOSING },
      ),
    );
  }

  #cut(failure: ApiError): void {
    this.#failure ??= failure;
    this.#fail?.(this.#failure);
  }
}
