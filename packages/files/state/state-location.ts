/** Where the state of a folder lies: one file per folder in the user's cache. */
import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { join } from 'node:path';

export const TREES_PART = 'trees';

/** `$XDG_CACHE_HOME/holdfast`, or `~/.cache/holdfast`. A relative XDG_CACHE_HOME counts as unset, as its specification says. */
export function defaultCacheFolder(environment: Readonly<Record<string, string | undefined>>): string {
  const base = environment.XDG_CACHE_HOME;
  return join(base?.startsWith('/') ? base : join(homedir(), '.cache'), 'holdfast');
}

/**
 * The name of its file in the part TREES_PART of the cache folder. `path` is absolute. Trees with and without times are told apart: they are different trees. Of pushes of one path at the
 * same time each has a slot, from 0 on.
 */
export function stateFileName(path: string, recordsMtime: boolean, slot: number): string {
  const key = createHash('sha256')
    .update(`${recordsMtime ? 'mtime' : 'plain'}\0${path}`)
    .digest('hex');
  return `${key.slice(0, 32)}${slot === 0 ? '' : `-${slot}`}.sqlite`;
}
