/**
 * Reads one file block after block without waiting where waiting costs more than reading: what the operating system has in
 * memory is read on the spot, what must come from the disk is read off the event loop.
 */
import type { OpenFile } from './files.ts';

/** an asynchronous read of one block that took no longer found it in memory; so, it is assumed, are the next */
const WARM_READ_MS_MAX = 1;
/** bytes read on the spot before the event loop gets its turn */
const BYTES_ON_THE_SPOT_MAX = 4 * 1024 * 1024;

export class ReadPace {
  readonly #file: OpenFile;
  readonly #now: () => number;
  /** bytes that may still be read on the spot; 0: the next read is asynchronous and tells */
  #onTheSpot = 0;

  /** `now`: ms of a clock that never steps back. */
  constructor(file: OpenFile, now: () => number = () => performance.now()) {
    this.#file = file;
    this.#now = now;
  }

  /** Fills `buffer` from `position` on; gives the bytes read, fewer only at the end of the file. */
  read(buffer: Uint8Array, position: number): number | Promise<number> {
    return this.#onTheSpot > 0 ? this.#readNow(buffer, position) : this.#readLater(buffer, position);
  }

  #readNow(buffer: Uint8Array, position: number): number {
    const startedAt = this.#now();
    const length = this.#file.readNow(buffer, position);
    const isWarm = this.#now() - startedAt <= WARM_READ_MS_MAX;
    this.#onTheSpot = isWarm ? Math.max(0, this.#onTheSpot - buffer.length) : 0;
    return length;
  }

  async #readLater(buffer: Uint8Array, position: number): Promise<number> {
    const startedAt = this.#now();
    const length = await this.#file.read(buffer, position);
    if (this.#now() - startedAt <= WARM_READ_MS_MAX) this.#onTheSpot = BYTES_ON_THE_SPOT_MAX;
    return length;
  }
}
