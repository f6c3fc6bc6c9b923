/**
 * How many uploads of each Space are active, as one batch knows it: counted once, then kept right by the batch's own writes,
 * for nobody else writes meanwhile. A push opens them by the hundred, and each would count all the others.
 */

interface Known {
  count: number;
  /** ms; the count is right at every instant from here … */
  readonly from: number;
  /** … until here, when one of them expires */
  until: number;
}

export class ActiveUploads {
  readonly #known = new Map<number, Known>();

  find(spaceId: number, now: number): number | undefined {
    const known = this.#known.get(spaceId);
    return known !== undefined && known.from <= now && now < known.until ? known.count : undefined;
  }

  /** `count` of all that expire after `now`, the first of them at `firstExpiresAt`. */
  learn(spaceId: number, now: number, count: number, firstExpiresAt: number | undefined): void {
    this.#known.set(spaceId, { count, from: now, until: firstExpiresAt ?? Number.POSITIVE_INFINITY });
  }

  /** An upload came (1) or went (-1). */
  change(spaceId: number, urlExpiresAt: number, by: 1 | -1): void {
    const known = this.#known.get(spaceId);
    if (known === undefined || urlExpiresAt <= known.from) return;
    known.count += by;
    known.until = Math.min(known.until, urlExpiresAt);
  }

  /** What is known may be wrong: the next one counts. */
  forget(spaceId: number): void {
    this.#known.delete(spaceId);
  }
}
