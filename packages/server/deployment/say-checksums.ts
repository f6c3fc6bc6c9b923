/** Says at a start whether the store of rows proves its pages. */
import { describeChecksums, type PageChecksums } from '../engine/store-trial.ts';
import type { Log } from '../log.ts';

/** One of all workers says it. `checksums` undefined: the store does not say. */
export function sayChecksums(log: Log, engine: string, checksums: PageChecksums | undefined): void {
  if (checksums === 'on') log.info({ engine }, describeChecksums(checksums));
  if (checksums === 'off') log.warn({ engine }, describeChecksums(checksums));
}
