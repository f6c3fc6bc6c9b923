/** Active uploads per Space within one batch: counted once, then kept right by the batch's own writes. A push opens hundreds. */

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

  /** `count`: the uploads that expire after `now`; the first of them expires at `firstExpiresAt`. */
  learn(spaceId: number, now: number, count: number, firstExpiresAt: number | undefined): void {
    this.#known.set(spaceId, { count, from: now, until: firstExpiresAt ?? Number.POSITIVE_INFINITY });
  }

  /** An upload was added (1) or removed (-1). */
  change(spaceId: number, urlExpiresAt: number, by: 1 | -1): void {
    const known = this.#known.get(spaceId);
    if (known === undefined || urlExpiresAt <= known.from) return;
    known.count += by;
    known.until = Math.min(known.until, urlExpiresAt);
  }

  /** The number may be wrong: the next upload counts again. */
  forget(spaceId: number): void {
    this.#known.delete(spaceId);
  }
}
