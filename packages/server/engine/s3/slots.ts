/** Bounds the requests under way at once. A request without a slot waits in order, for a bounded time and in bounded number. */
import { StoreUnavailable } from '../../core/ports.ts';
import type { S3Limits } from './limits.ts';

type Waiting = { readonly resolve: () => void; readonly reject: (error: Error) => void };
type SlotLimits = Pick<S3Limits, 'requestsInFlightMax' | 'requestsWaitingMax' | 'waitMsMax'>;

export class Slots {
  readonly #limits: SlotLimits;
  readonly #waiting = new Set<Waiting>();
  #taken = 0;

  constructor(limits: SlotLimits) {
    this.#limits = limits;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Resolves with the function that releases the slot; call it once. Rejects with StoreUnavailable. */
  async take(): Promise<() => void> {
    const { requestsInFlightMax, requestsWaitingMax } = this.#limits;
    if (this.#taken < requestsInFlightMax) this.#taken += 1;
    else if (this.#waiting.size < requestsWaitingMax) await this.#wait();
    else throw busy('too many requests wait for the object store');
    let isReleased = false;
    return () => {
      if (isReleased) return;
      isReleased = true;
      this.#giveOn();
    };
  }

  #wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(waiting);
      };
      const waiting: Waiting = {
        resolve: () => {
          leave();
          resolve();
        },
        reject: (error) => {
          leave();
          reject(error);
        },
      };
      const timer = setTimeout(
        () => waiting.reject(busy('the object store had no free connection in time')),
        this.#limits.waitMsMax,
      );
      this.#waiting.add(waiting);
    });
  }

  /** Passes the slot to the request that has waited longest, so that no other can overtake it. */
  #giveOn(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#taken -= 1;
    else next.resolve();
  }
}

const busy = (what: string): StoreUnavailable =>
  new StoreUnavailable(`${what}; repeat the request a little later`);
