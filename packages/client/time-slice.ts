/** A loop over nodes that are at hand waits for nothing, and may have very many, so it lets timers and signals have their turn. */

/** How long a loop may keep the process to itself. */
const SLICE_MS = 20;

export class TimeSlice {
  #endsAt = performance.now() + SLICE_MS;

  /** To be called in each round: await what it returns, if anything. */
  pass(): Promise<void> | undefined {
    if (performance.now() < this.#endsAt) return undefined;
    return new Promise((resolve) => {
      setTimeout(() => {
        this.#endsAt = performance.now() + SLICE_MS;
        resolve();
      }, 0);
    });
  }
}
