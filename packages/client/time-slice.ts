/** A loop over nodes that are at hand waits for nothing, and may have very many, so it lets timers and signals have their turn. */

/** How long a loop may keep the process to itself: twice that if it waited for something in between. */
const SLICE_MS = 50;

export class TimeSlice {
  #endsAt = 0;
  /** Timers had their turn since the slice began, because the loop waited for something. */
  #hadTurn = true;

  /** To be called in each round: await what it returns, if anything. */
  pass(): Promise<void> | undefined {
    if (performance.now() < this.#endsAt) return undefined;
    if (this.#hadTurn) return this.#begin();
    return new Promise((resolve) => {
      setTimeout(() => {
        this.#begin();
        resolve();
      }, 0);
    });
  }

  #begin(): undefined {
    this.#endsAt = performance.now() + SLICE_MS;
    this.#hadTurn = false;
    setTimeout(() => {
      this.#hadTurn = true;
    }, 0);
  }
}
