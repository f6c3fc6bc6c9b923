/** Counts responses in memory until they are sent: a slow reader's bytes stay charged. */
import type { Awaitable } from '../core/awaitable.ts';
import type { Space } from '../core/model.ts';
import { SentWatch } from '../runtime/sent-watch.ts';
import { FairShares, type Hold } from '../shares/fair-shares.ts';
import type { Connections } from './peer.ts';

export class SentAnswers {
  readonly #shares: FairShares;
  readonly #watch = new SentWatch();

  constructor(options: ConstructorParameters<typeof FairShares>[0]) {
    this.#shares = new FairShares(options);
  }

  /** bytes that are held */
  get used(): number {
    return this.#shares.used;
  }

  /** Before the bytes are read. Throws or rejects with RESOURCE_EXHAUSTED. */
  reserve(space: Space, bytes: number): Awaitable<Hold> {
    return this.tryReserve(space, bytes) ?? this.#shares.acquire(space.appId, space.spaceId, bytes);
  }

  /** undefined if there is no room now. */
  tryReserve({ appId, spaceId }: Space, bytes: number): Hold | undefined {
    const hold = this.#shares.tryAcquire(appId, spaceId, bytes);
    if (hold !== undefined) return hold;
    this.#watch.look();
    return this.#shares.tryAcquire(appId, spaceId, bytes);
  }

  /** Releases the hold when the response to `request`, passed on in this turn, was sent or aborted. */
  releaseOnceSent(request: Request, connections: Connections | undefined, hold: Hold): void {
    if (connections === undefined) hold.release();
    else this.#watch.watch(request, connections, () => hold.release());
  }
}
