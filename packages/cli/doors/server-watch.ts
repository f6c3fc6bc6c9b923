/** Whether the server answers: a door must not wait as long as a person would. */
import type { FetchFunction } from '@holdfast/client/internal';

/** A server that answers nothing of what it was asked for so long is away. */
export const SILENT_MS_MAX = 15_000;

class ServerWatch {
  /** when each request was sent that has no answer yet */
  readonly #asked = new Map<object, number>();
  #heardAt = Number.NEGATIVE_INFINITY;

  /** `send`, watched. */
  over(send: FetchFunction): FetchFunction {
    return async (url, init) => {
      const asking = {};
      this.#asked.set(asking, performance.now());
      try {
        const response = await send(url, init);
        this.#heardAt = performance.now();
        return response;
      } finally {
        this.#asked.delete(asking);
      }
    };
  }

  /** How long something was asked and nothing answered; 0 if nothing is asked. */
  silentMs(): number {
    const [oldest] = this.#asked.values();
    return oldest === undefined ? 0 : performance.now() - Math.max(oldest, this.#heardAt);
  }
}

/** A door is one process, and has one server. */
export const serverWatch = new ServerWatch();
