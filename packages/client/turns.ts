/** Lets in as many as a limit allows at the time, first come first served. */

export class Turns {
  readonly #limit: () => number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(limit: () => number) {
    this.#limit = limit;
  }

  /** Resolves with the function that ends the turn. */
  async take(): Promise<() => void> {
    if (this.#running < this.#limit() && this.#waiting.length === 0) this.#running += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => this.#end();
  }

  #end(): void {
    this.#running -= 1;
    while (this.#running < this.#limit()) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#running += 1;
      next();
    }
  }
}
