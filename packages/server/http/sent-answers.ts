/**
 * Answers in memory until they are sent: a slow reader keeps its bytes charged. The runtime does not report that it has sent an
 * answer, but from then on it knows no connection for the request.
 */
import type { Awaitable } from '../core/awaitable.ts';
import type { Space } from '../core/model.ts';
import { FairShares, type Hold } from '../shares/fair-shares.ts';
import type { Connections } from './exchange.ts';

const LOOK_MS = 50;

interface Sending {
  readonly request: Request;
  readonly connections: Connections;
  readonly hold: Hold;
}

export class SentAnswers {
  readonly #shares: FairShares;
  readonly #sending = new Set<Sending>();
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(options: ConstructorParameters<typeof FairShares>[0]) {
    this.#shares = new FairShares(options);
  }

  /** bytes that are held */
  get used(): number {
    return this.#shares.used;
  }

  /** Before the bytes are read. Throws or rejects with RESOURCE_EXHAUSTED. */
  reserve({ appId, spaceId }: Space, bytes: number): Awaitable<Hold> {
    const hold = this.#shares.tryAcquire(appId, spaceId, bytes);
    if (hold !== undefined) return hold;
    this.#look();
    return this.#shares.acquire(appId, spaceId, bytes);
  }

  /** `undefined`: there is no room now. */
  tryReserve({ appId, spaceId }: Space, bytes: number): Hold | undefined {
    const hold = this.#shares.tryAcquire(appId, spaceId, bytes);
    if (hold !== undefined) return hold;
    this.#look();
    return this.#shares.tryAcquire(appId, spaceId, bytes);
  }

  /** Releases the hold when the answer to `request`, which is handed over in this turn, has been sent or has broken off. */
  releaseOnceSent(request: Request, connections: Connections | undefined, hold: Hold): void {
    if (connections === undefined) {
      hold.release();
      return;
    }
    this.#sending.add({ request, connections, hold });
    this.#timer ??= setInterval(() => this.#look(), LOOK_MS).unref();
  }

  #look(): void {
    for (const sending of this.#sending) {
      if (sending.connections.requestIP(sending.request) !== null) continue;
      this.#sending.delete(sending);
      sending.hold.release();
    }
    if (this.#sending.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
