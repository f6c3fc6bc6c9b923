/** A file that stands where a pull writes, to be compared with that of the tree. */
import { closeSync, fchmodSync, fstatSync, fsyncSync, openSync } from 'node:fs';
import type { ExistingFile } from '@holdfast/client/internal';
import { READ_FLAGS } from './local-entries.ts';
import { readRange } from './partial-names.ts';

/** Makes a file executable by everyone who may read it, or by nobody. Throws what the system says, also of a link. */
export function setExecutable(at: Buffer, isExecutable: boolean): void {
  const descriptor = openSync(at, READ_FLAGS);
  try {
    const { mode } = fstatSync(descriptor);
    const readers = (mode & 0o444) >> 2;
    // The bits above the permissions are cleared, never set.
    fchmodSync(descriptor, (mode & 0o666) | (isExecutable ? readers : 0));
  } finally {
    closeSync(descriptor);
  }
}

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
