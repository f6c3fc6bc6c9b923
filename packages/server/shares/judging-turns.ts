/**
 * Judging packs, shared out among Apps: few packs at once, because each holds memory, and their work in turns, because a small pack may
 * unpack to very many bytes. One App never holds all places, and a pack that has had much gives way to an App that holds none, or to
 * another Space of its App that holds none.
 */
import { ApiError } from '@holdfast/protocol';
import { FairPlaces } from './fair-places.ts';
import { FairRounds } from './fair-queue.ts';

interface Share {
  readonly appId: string;
  readonly spaceId: string;
}

export class JudgingTurns {
  readonly #places = new FairPlaces({
    resource: 'judgements',
    // Packs in one process: each holds up to 8 MiB of one record, and 1 MiB of what is read.
    placesMax: 4,
    // for Apps that have no pack judged
    keptMax: 1,
    waitingMax: 256,
    // A large pack takes seconds.
    waitMsMax: 30_000,
    inVain: () =>
      new ApiError('SERVICE_UNAVAILABLE', 'too many packs are being judged; repeat the same request', {
        retryAfterSeconds: 5,
      }),
  });
  /** One for each round of the event loop, whatever it costs. */
  readonly #turns = new FairRounds(1);

  /**
   * Resolves when a pack of this Space may be judged. Throws or rejects with RESOURCE_EXHAUSTED or SERVICE_UNAVAILABLE. One that comes
   * again after it gave way makes no other give way.
   */
  async enter({ appId, spaceId }: Share, isAgain: boolean) {
    await this.#places.take(appId, spaceId, isAgain);
    let used = 0;
    return {
      /** core/pack-ports.ts JudgingPlace. Everything else has its turn between. */
      nextTurn: async (cost: number): Promise<boolean> => {
        used += cost;
        // A pack that has cost so many bytes pauses after each turn and gives its place to one that holds none. Coming back costs less.
        const isLong = used > 64 * 1024 * 1024;
        if (isLong && this.#places.isOwed(appId, spaceId)) return false;
        await this.#turns.next(appId, spaceId, cost, isLong ? 10 : 0);
        return true;
      },
      leave: (): void => this.#places.leave(appId, spaceId),
    };
  }
}
