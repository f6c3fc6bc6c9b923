/** Makes small files for a pull in another thread. */
import type { UnprovenFile } from '@holdfast/client/internal';
import type { Placed, SmallFile } from './small-file.ts';

export interface FileWriter {
  /** Announces how many files may come, so that the writer prepares for them. */
  expect(files: number): void;
  /**
   * Copies the bytes of a file and writes them later. Undefined when there is no room now: then the caller writes the file. Rejects
   * with what the system said.
   */
  take(file: SmallFile, content: Uint8Array): Promise<Placed> | undefined;
  /** The same of a node that is verified first. `unproven`: it is not what its hash says, and nothing was written. */
  takeUnproven(file: SmallFile, unproven: UnprovenFile): Promise<Placed | 'unproven'> | undefined;
  /**
   * Calls `work` when all files that were taken so far for the folder of `descriptor` are written or have failed; at once if there
   * are none.
   */
  afterTaken(descriptor: number, work: () => void): void;
  /** Resolves when all files are written or have failed. */
  close(): Promise<void>;
}
