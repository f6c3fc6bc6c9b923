/**
 * Files that are read at once, each opened once in a turn of the event loop: opening and closing one costs more than reading 4 KiB
 * of it. Nothing is open from one turn to the next, so that a file that is gone is noticed by the next turn's first read.
 */
import type { Generation } from '../../core/model.ts';
import type { FileNow } from './files.ts';

export class TurnFiles {
  readonly #openNow: (generation: Generation) => FileNow;
  readonly #files = new Map<Generation, FileNow>();

  constructor(openNow: (generation: Generation) => FileNow) {
    this.#openNow = openNow;
  }

  /** Fills `buffer` from `position` on; returns the bytes read. Throws the disk's error. */
  read(generation: Generation, buffer: Uint8Array, position: number): number {
    return (this.#files.get(generation) ?? this.#open(generation)).read(buffer, position);
  }

  readonly endTurn = (): void => {
    for (const file of this.#files.values()) file.close();
    this.#files.clear();
  };

  #open(generation: Generation): FileNow {
    if (this.#files.size >= 64) this.endTurn();
    const file = this.#openNow(generation);
    if (this.#files.size === 0) setImmediate(this.endTurn);
    this.#files.set(generation, file);
    return file;
  }
}
