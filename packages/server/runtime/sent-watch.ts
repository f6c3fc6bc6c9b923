/**
 * Why: the runtime does not report that it has sent an answer. From then on it knows no connection for the request, so that is asked.
 * Since: Bun 1.4.5 or earlier.
 * Without it: bytes count only until they are handed over. 2,000 unread answers of 250 KB held 900 MB.
 * Goes when: the runtime reports the end of an answer.
 */

interface Connections {
  /** The other end of the request's connection; null once the answer is sent or broken off. */
  requestIP(request: Request): unknown;
}

interface Sending {
  readonly request: Request;
  readonly connections: Connections;
  readonly onSent: () => void;
}

export class SentWatch {
  readonly #sending = new Set<Sending>();
  #timer: ReturnType<typeof setInterval> | undefined;

  /** Calls `onSent` when the answer to `request`, which is handed over in this turn, has been sent or has broken off. */
  watch(request: Request, connections: Connections, onSent: () => void): void {
    this.#sending.add({ request, connections, onSent });
    this.#timer ??= setInterval(() => this.look(), 50).unref();
  }

  look(): void {
    for (const sending of this.#sending) {
      if (sending.connections.requestIP(sending.request) !== null) continue;
      this.#sending.delete(sending);
      sending.onSent();
    }
    if (this.#sending.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
