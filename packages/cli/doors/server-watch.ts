/** Whether the server answers: a door must not wait as long as a person would. */
import type { FetchFunction } from '@holdfast/client/internal';

/** A server that answers nothing of what it was asked for so long is away. */
export const SILENT_MS_MAX = 15_000;

export class ServerWatch {
  /** when each request was sent that has no answer yet */
  readonly #asked = new Map<object, number>();
  #heardAt = Number.NEGATIVE_INFINITY;
  #isProbing = false;

  /** `send`, watched. While a body is sent, the server is asked for something small every `probeMs`: a slow line is no silence. */
  over(send: FetchFunction, probeMs = 5_000): FetchFunction {
    return async (url, init) => {
      const asking = {};
      this.#asked.set(asking, performance.now());
      const probing = init?.body && setInterval(() => void this.#probe(send, url), probeMs);
      try {
        const response = await send(url, init);
        this.#heardAt = performance.now();
        return response;
      } finally {
        if (probing) clearInterval(probing);
        this.#asked.delete(asking);
      }
    };
  }

  async #probe(send: FetchFunction, url: string): Promise<void> {
    if (this.#isProbing) return;
    this.#isProbing = true;
    try {
      await send(new URL('/', url).href, { method: 'HEAD', signal: AbortSignal.timeout(SILENT_MS_MAX) });
      this.#heardAt = performance.now();
    } catch {
      // Silence is what is looked for.
    } finally {
      this.#isProbing = false;
    }
  }

  /** How long something was asked and nothing answered; 0 if nothing is asked. */
  silentMs(): number {
    const [oldest] = this.#asked.values();
    return oldest === undefined ? 0 : performance.now() - Math.max(oldest, this.#heardAt);
  }
}

/** A door is one process, and has one server. */
export const serverWatch = new ServerWatch();
