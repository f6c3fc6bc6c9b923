/** Where the scrub's walk goes on: behind the node it read last, or behind a stretch that it cannot read for damage. */
import type { ScrubPosition } from '../../core/ports.ts';

/** Of the first 32 bits of a hash: a 4096th of what a Space holds. Damage that goes on is skipped in ever larger steps. */
const FIRST_STEP = 2 ** 20;
const HASH_STARTS = 2 ** 32;

interface Place {
  /** of a Space; 0 is before all */
  readonly space: number;
  /** hex, perhaps only its beginning */
  readonly hash: string;
}

interface Skipped {
  readonly after: ScrubPosition | undefined;
  readonly to: Place;
  readonly step: number;
}

export class ScrubWalk {
  #skipped: Skipped | undefined;

  /** Where to read on from: each time it was damage that was met there, further on. */
  from(after: ScrubPosition | undefined): Place {
    return this.#find(after)?.to ?? parsePlace(after);
  }

  /** It could be read there: the next walk looks again at what was skipped. */
  goOn(): void {
    this.#skipped = undefined;
  }

  /** What follows `after` could not be read: the scrub tells its log, asks again, and is then given what comes later. */
  skip(after: ScrubPosition | undefined): void {
    const { space, hash } = this.from(after);
    const step = (hash === '' ? undefined : this.#find(after)?.step) ?? FIRST_STEP;
    const start = Number.parseInt(hash.slice(0, 8).padEnd(8, '0'), 16) + step;
    const to =
      start < HASH_STARTS
        ? { space, hash: start.toString(16).padStart(8, '0') }
        : { space: space + 1, hash: '' };
    this.#skipped = { after, to, step: step * 2 };
  }

  #find(after: ScrubPosition | undefined): Skipped | undefined {
    return this.#skipped?.after === after ? this.#skipped : undefined;
  }
}

function parsePlace(after: ScrubPosition | undefined): Place {
  const [space, hash = ''] = after === undefined ? ['0'] : after.split('.');
  return { space: Number(space), hash };
}
