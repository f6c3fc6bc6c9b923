/** Makes the folder that a pull fills. If another entry stands there, `force` replaces it. */
import { lstatSync, mkdirSync, realpathSync, renameSync, type Stats, statSync, unlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PullTargetError } from '@holdfast/client';
import { explain } from './failure.ts';
import { syncFolder } from './local-entries.ts';
import { forgetPartialName, makePartialName, NO_HASH } from './partial-names.ts';

/**
 * Makes `base` and the folders above it. `isNamed`: it is the place that was named for the pull, where with `force` a file or link
 * gives way. A device, pipe or socket never does, nor a link to one: it is most likely the machine's own. Throws PullTargetError.
 */
export function makeBase(
  base: string,
  { isNamed, force, fsync }: { isNamed: boolean; force: boolean; fsync: boolean },
  sync: (folder: Buffer) => void = syncFolder,
): void {
  try {
    mkdirSync(base, { recursive: true });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : '';
    if (code !== 'EEXIST' && code !== 'ENOTDIR' && code !== 'ENOENT')
      throw explain(error, `${base} cannot be made`);
    const found = findStat(base);
    if (found === undefined)
      throw new PullTargetError(
        `${base} is below a file, below a link that leads nowhere, or where the system makes no folders; choose another place for the tree`,
      );
    const isReplaceable = isNamed && !isSpecial(base);
    if (!isReplaceable || !force) throw refuse(base, found, isReplaceable);
    replaceByFolder(base);
  }
  if (fsync) syncAbove(base, sync);
}

/**
 * Makes the names in `base` durable, and all on its file system that lead to it: a killed pull may have made some of them and not synced
 * them. A folder that we may not open is none that a pull made.
 */
function syncAbove(base: string, sync: (folder: Buffer) => void): void {
  try {
    const { dev } = statSync(base);
    let next = realpathSync(base);
    for (let at = ''; at !== next && statSync(next).dev === dev; next = dirname(next)) {
      at = next;
      sync(Buffer.from(at));
    }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : '';
    if (code !== 'EACCES' && code !== 'EPERM') throw explain(error, `${base} cannot be made durable`);
  }
}

/** Whether a device, pipe or socket is there, or what a link there leads to. */
export function isSpecial(path: string): boolean {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    return found !== undefined && !found.isFile() && !found.isDirectory();
  } catch {
    // Nothing can be reached there.
    return false;
  }
}

function findStat(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    // Something above it is no folder.
    return undefined;
  }
}

function refuse(base: string, found: Stats, isReplaceable: boolean): PullTargetError {
  const kind = found.isFile()
    ? 'a file'
    : found.isSymbolicLink()
      ? isSpecial(base)
        ? 'a link to a pipe, socket or device'
        : 'a link that leads to none'
      : 'a pipe, socket or device';
  const advice = `choose another place for the tree${isReplaceable ? ', or replace it by --force' : ''}`;
  return new PullTargetError(`${base} is not a folder but ${kind}; nothing was written: ${advice}`);
}

/** Moves the old entry aside and removes it once the folder is made: whatever fails, one of the two stands there. */
function replaceByFolder(base: string): void {
  const name = makePartialName(NO_HASH);
  const aside = join(dirname(base), name);
  try {
    renameSync(base, aside);
    try {
      // Nobody else knows the new name, so only now it is certain what was moved.
      if (lstatSync(aside).isDirectory())
        throw new PullTargetError(`${base} became a folder meanwhile; run the same command again`);
      mkdirSync(base);
    } catch (error) {
      renameSync(aside, base);
      throw error;
    }
    unlinkSync(aside);
  } catch (error) {
    throw explain(error, `${base} cannot be replaced`);
  } finally {
    forgetPartialName(name);
  }
}
