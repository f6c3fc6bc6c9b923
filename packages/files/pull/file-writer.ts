/** Makes small files for a pull in another thread. */
import type { UnprovenFile } from '@holdfast/client/internal';
import type { Placed, SmallFile } from './small-file.ts';

export interface FileWriter {
  /** Announces how many files may come, so that the writer prepares for them. */
  expect(files: number): void;
  /** Copies the bytes and writes them later. Undefined: no room now, so the caller writes. Rejects with what the system said. */
  take(file: SmallFile, content: Uint8Array): Promise<Placed> | undefined;
  /** The same of a node that is verified first. `unproven`: it is not what its hash says, and nothing was written. */
  takeUnproven(file: SmallFile, unproven: UnprovenFile): Promise<Placed | 'unproven'> | undefined;
  /** Calls `work` when all files taken so far for the folder of `descriptor` are written or have failed; at once if none. */
  afterTaken(descriptor: number, work: () => void): void;
  /** Resolves when all files are written or have failed. */
  close(): Promise<void>;
}
