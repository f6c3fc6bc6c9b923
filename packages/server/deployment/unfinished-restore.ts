/** A data folder that `holdfast restore` has begun to fill: a file in it says so until the last byte is proven. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ServeError } from '../errors.ts';

export const UNFINISHED_RESTORE = 'UNFINISHED-RESTORE';

/** @throws ServeError */
export function assertRestored(dataDir: string): void {
  if (!existsSync(join(dataDir, UNFINISHED_RESTORE))) return;
  throw new ServeError(
    `the data folder ${dataDir} holds an unfinished restore: finish it by the same holdfast restore command, or begin with another folder`,
  );
}
