/** The position from which the scrub's walk resumes: after the last node read, or after a range that damage makes unreadable. */
import type { ScrubPosition } from '../../core/upkeep-ports.ts';

/** In the first 32 bits of a hash: a 4096th of a Space. If the damage continues, the steps grow. */
const FIRST_STEP = 2 ** 20;

/** The position from which rows are read. */
export interface Place {
  /** id of the Space; 0 comes before all */
  readonly space: number;
  /** hex; perhaps only the beginning of a hash */
  readonly hash: string;
}

interface Skipped {
  readonly after: ScrubPosition | undefined;
  /** undefined: there is no Space behind the damage */
  readonly to: Place | undefined;
  readonly step: number;
}

export class ScrubWalk {
  readonly #findSpaceAfter: (space: number) => number | undefined;
  #skipped: Skipped | undefined;

  /** `findSpaceAfter` gives the id of the next Space that exists. */
  constructor(findSpaceAfter: (space: number) => number | undefined) {
    this.#findSpaceAfter = findSpaceAfter;
  }

  /** The position of the next read: further on each time that damage was found. Returns undefined after the last Space. */
  from(after: ScrubPosition | undefined): Place | undefined {
    const skipped = this.#find(after);
    return skipped === undefined ? parsePlace(after) : skipped.to;
  }

  /** The read succeeded. The next walk tries the skipped range again. */
  goOn(): void {
    this.#skipped = undefined;
  }

  /** The rows after `after` could not be read: the scrub logs that and asks again, and then gets later rows. */
  skip(after: ScrubPosition | undefined): void {
    const from = this.from(after);
    if (from === undefined) return;
    const { space, hash } = from;
    const step = (hash === '' ? undefined : this.#find(after)?.step) ?? FIRST_STEP;
    const start = Number.parseInt(hash.slice(0, 8).padEnd(8, '0'), 16) + step;
    const to =
      start < 2 ** 32 ? { space, hash: start.toString(16).padStart(8, '0') } : this.#startAfter(space);
    this.#skipped = { after, to, step: step * 2 };
  }

  /** Behind the last Space a read would meet the same damaged page for every number. */
  #startAfter(space: number): Place | undefined {
    const next = this.#findSpaceAfter(space);
    return next === undefined ? undefined : { space: next, hash: '' };
  }

  #find(after: ScrubPosition | undefined): Skipped | undefined {
    return this.#skipped?.after === after ? this.#skipped : undefined;
  }
}

function parsePlace(after: ScrubPosition | undefined): Place {
  const [space, hash = ''] = after === undefined ? ['0'] : after.split('.');
  return { space: Number(space), hash };
}
