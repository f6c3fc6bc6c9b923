/** What makes small files for a pull beside it, in a thread of its own. */
import type { Placed, SmallFile } from './small-file.ts';

export interface FileWriter {
  /**
   * Takes a file over, its bytes copied; undefined when it has no room now, so that the caller writes it. Rejects with what the
   * system said.
   */
  take(file: SmallFile, content: Uint8Array): Promise<Placed> | undefined;
  /** Calls `work` when all files taken so far for the folder of `descriptor` are over: at once where there are none. */
  afterTaken(descriptor: number, work: () => void): void;
  /** Resolves when all files are over and nothing more is written. */
  close(): Promise<void>;
}
