/** So many bytes may be in memory at once; what comes later waits, first come first served. */
import { abortable } from './deadline.ts';

export class ByteBudget {
  readonly #bytesMax: number;
  readonly #waiting: { readonly bytes: number; readonly start: () => void }[] = [];
  #taken = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Resolves with the function that gives the bytes back. More than there ever are get all. Rejects with the signal's reason. */
  async take(bytes: number, signal: AbortSignal | undefined): Promise<() => void> {
    const wanted = Math.min(bytes, this.#bytesMax);
    const release = (): void => {
      this.#taken -= wanted;
      this.#startNext();
    };
    if (this.#waiting.length === 0 && this.#hasRoom(wanted)) {
      this.#taken += wanted;
      return release;
    }
    const turn = new Promise<void>((start) => this.#waiting.push({ bytes: wanted, start }));
    try {
      await abortable(turn, signal);
      return release;
    } catch (reason) {
      void turn.then(release);
      throw reason;
    }
  }

  #hasRoom(bytes: number): boolean {
    return this.#taken + bytes <= this.#bytesMax;
  }

  #startNext(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (!this.#hasRoom(next.bytes)) return;
      this.#waiting.shift();
      this.#taken += next.bytes;
      next.start();
    }
  }
}
