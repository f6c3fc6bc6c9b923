/** The folder where things are remembered for the user, which no push stores: it changes with every push. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { IGNORE_FILE_NAME } from '../push/ignore-rules.ts';

/**
 * Makes `part` of the cache folder and returns its path. A folder made here gets an ignore file that leaves out all of it, so that a
 * home folder which holds it has the same hash until something else changes. One that was there before may hold what is not ours.
 */
export function makeCacheFolder(cacheFolder: string, part: string): string {
  const folders = [cacheFolder, join(cacheFolder, part)];
  for (const folder of folders) {
    const firstMade = mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (firstMade !== undefined) writeFileSync(join(folder, IGNORE_FILE_NAME), '*\n', { mode: 0o600 });
  }
  return join(cacheFolder, part);
}
