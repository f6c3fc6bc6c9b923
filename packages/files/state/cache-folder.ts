/** The folder where things are remembered for the user. No push stores it, because it changes with every push. */

import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import { IGNORE_FILE_NAME } from '../push/ignore-rules.ts';

export const TREES_PART = 'trees';
/** They leave out all that is beside them: of a push, and of git. */
const MARKS: readonly string[] = [IGNORE_FILE_NAME, '.gitignore'];

/**
 * `$XDG_CACHE_HOME/holdfast`, or `~/.cache/holdfast`. A relative path counts as unset, as the specification of XDG_CACHE_HOME says.
 * Undefined for a user without a home, as in a container that runs as any user.
 */
export function defaultCacheFolder(
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const { XDG_CACHE_HOME: base, HOME: home = findHome() } = environment;
  if (base?.startsWith('/')) return join(base, 'holdfast');
  return home?.startsWith('/') ? join(home, '.cache', 'holdfast') : undefined;
}

function findHome(): string | undefined {
  try {
    return userInfo().homedir;
  } catch {
    // The user is not on it.
    return undefined;
  }
}

/**
 * The name of the state's file in the part TREES_PART of the cache folder. `path` is absolute. Trees with times and without are
 * different trees, so each has a file. Pushes of one path at the same time each have a slot, from 0 on.
 */
export function stateFileName(path: string, recordsMtime: boolean, slot: number): string {
  const key = createHash('sha256')
    .update(`${recordsMtime ? 'mtime' : 'plain'}\0${path}`)
    .digest('hex');
  return `${key.slice(0, 32)}${slot === 0 ? '' : `-${slot}`}.sqlite`;
}

/**
 * Makes `part` of the cache folder and returns its path. A folder that is made here gets ignore files that leave out all of it,
 * so that a push of the home folder does not see the cache change. A folder that was there before may hold files of others.
 */
export function makeCacheFolder(cacheFolder: string, part: string): string {
  const folders = [cacheFolder, join(cacheFolder, part)];
  for (const folder of folders) {
    const firstMade = mkdirSync(folder, { recursive: true, mode: PRIVATE_FOLDER_MODE });
    if (firstMade === undefined) continue;
    for (const name of MARKS) writeFileSync(join(folder, name), '*\n', { mode: PRIVATE_FILE_MODE });
  }
  return join(cacheFolder, part);
}
