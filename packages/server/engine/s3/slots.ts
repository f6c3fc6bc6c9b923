/** How many requests are under way at once. Whoever finds no place waits, in order, not too long and not too many. */
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

  /** Resolves with the release of the place, to be called once. Rejects with StoreUnavailable. */
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

  /** The place goes straight to who waited longest, so nobody can overtake. */
  #giveOn(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#taken -= 1;
    else next.resolve();
  }
}

const busy = (what: string): StoreUnavailable =>
  new StoreUnavailable(`${what}; repeat the request a little later`);
