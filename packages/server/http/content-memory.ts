/** Keeps the memory that content answers take bounded, however many callers there are and however slowly they read. */
import { BUFFERED_ANSWERS_MAX } from './http-limits.ts';

export class ContentMemory {
  private gathering = 0;

  /**
   * Takes a place for one answer of at most 8 MiB; false when there is none: then the answer goes through a file. An answer
   * that has been handed over is known to be on its way only as one of `sending`, so all of those count as if they were large.
   */
  tryTake(sending: number): boolean {
    if (this.gathering + sending >= BUFFERED_ANSWERS_MAX) return false;
    this.gathering += 1;
    return true;
  }

  /** The answer is whole and handed over, or has failed. */
  give(): void {
    this.gathering -= 1;
  }
}
