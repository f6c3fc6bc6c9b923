/** Ends a server whose data folder was removed or replaced: SQLite would write to unlinked files that no one can read later. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../error-code.ts';
import { LOCK_NAME } from './data-folder.ts';

/** of SQLite's rows, as the folder has it */
const ROWS_FILE = 'holdfast.db';
/** Files that every server has from its start to its end. */
const WATCHED = ['', LOCK_NAME, ROWS_FILE];
/** The last of several workers that closes the database removes its log, and the next one creates it again. */
const WATCHED_ALONE = [...WATCHED, `${ROWS_FILE}-wal`];

/** Checks that folder and files of the start are there. Calls `onGone` once with the first missing path. Returns a function to stop. */
export async function watchFolder(
  dataDir: string,
  hasWorkers: boolean,
  onGone: (path: string) => void,
): Promise<() => void> {
  const paths = (hasWorkers ? WATCHED : WATCHED_ALONE).map((name) => join(dataDir, name));
  const atStart = new Map<string, string>();
  for (const path of paths) {
    const found = await identify(path);
    if (found !== undefined) atStart.set(path, found);
  }
  let isLooking = false;
  const look = async (): Promise<void> => {
    if (isLooking) return;
    isLooking = true;
    for (const [path, identity] of atStart) {
      // A disk that fails now proves nothing.
      const found = await identify(path).catch(() => identity);
      if (found === identity) continue;
      clearInterval(timer);
      onGone(path);
      return;
    }
    isLooking = false;
  };
  // Several looks fall within the 20 s after which nothing may be acknowledged any more.
  const timer = setInterval(() => void look(), 3000).unref();
  return () => clearInterval(timer);
}

/** The identity of the file; undefined if it does not exist. */
async function identify(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined;
    throw error;
  }
}
