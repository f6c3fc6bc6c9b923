/** The mode of a file that stands there. */
import { closeSync, fchmodSync, fstatSync, openSync } from 'node:fs';
import { READ_FLAGS } from './local-entries.ts';

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
