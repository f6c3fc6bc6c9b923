/** A file that stands where a pull writes, to be compared with that of the tree. */
import { closeSync, fstatSync, fsyncSync, openSync } from 'node:fs';
import type { ExistingFile } from '@holdfast/client/internal';
import { READ_FLAGS } from './local-entries.ts';
import { readRange } from './partial-names.ts';

/** undefined: it is no file. `fsync`: durable once it is closed, because it may count as done. Throws what the system says. */
export function openExistingFile(at: Buffer, fsync: boolean): ExistingFile | undefined {
  const descriptor = openSync(at, READ_FLAGS);
  if (!fstatSync(descriptor).isFile()) {
    closeSync(descriptor);
    return undefined;
  }
  return {
    read: (offset, length) => readRange(descriptor, offset, length),
    close() {
      if (fsync) fsyncSync(descriptor);
      closeSync(descriptor);
    },
  };
}
