/** The folder where things are remembered for the user. No push stores it, because it changes with every push. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { IGNORE_FILE_NAME } from '../push/ignore-rules.ts';

export const TREES_PART = 'trees';

/** `$XDG_CACHE_HOME/holdfast`, or `~/.cache/holdfast`. A relative XDG_CACHE_HOME counts as unset, as its specification says. */
export function defaultCacheFolder(environment: Readonly<Record<string, string | undefined>>): string {
  const base = environment.XDG_CACHE_HOME;
  return join(base?.startsWith('/') ? base : join(homedir(), '.cache'), 'holdfast');
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
 * Makes `part` of the cache folder and returns its path. A folder that is made here gets an ignore file that leaves out all of it,
 * so that a push of the home folder does not see the cache change. A folder that was there before may hold files of others.
 */
export function makeCacheFolder(cacheFolder: string, part: string): string {
  const folders = [cacheFolder, join(cacheFolder, part)];
  for (const folder of folders) {
    const firstMade = mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (firstMade !== undefined) writeFileSync(join(folder, IGNORE_FILE_NAME), '*\n', { mode: 0o600 });
  }
  return join(cacheFolder, part);
}
