/** Marks a folder of Holdfast as foreign to the folder around it, so that neither a push nor git includes it. */

import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE } from '@holdfast/protocol';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';
import { isOwnName } from './folder-owner.ts';

/** The pattern that ignores the whole folder, in the syntax that both files share. */
export const FOLDER_MARKS: readonly string[] = ['.holdfastignore', '.gitignore'];

/** Unless it holds things of others too, whose ignored files are not ours to choose. */
export function markDataFolder(dataDir: string): void {
  if (readdirSync(dataDir).every(isOwnName)) markFolder(dataDir);
}

/** Durable when it returns. Marks that stand there stay. Marks only help, so nothing fails for the lack of them. */
export function markFolder(folder: string): void {
  const missing = FOLDER_MARKS.filter((name) => !existsSync(join(folder, name)));
  if (missing.length === 0) return;
  try {
    for (const name of missing) writeMark(folder, join(folder, name));
    const held = openSync(folder, 'r');
    fsyncSync(held);
    closeSync(held);
  } catch (error) {
    // A full disk, for example: the next start marks the folder.
    if (codeOf(error) === undefined) throw error;
  }
}

function writeMark(folder: string, path: string): void {
  const file = openSync(path, 'wx', PRIVATE_FILE_MODE);
  try {
    writeSync(file, '*\n');
    fsyncSync(file);
  } catch (error) {
    // An empty mark would ignore nothing, and would stand there at the next start.
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
  // Root may administer the folder of another user, who must be able to read it.
  const { uid, gid } = statSync(folder);
  if (process.getuid?.() === 0 && uid !== 0) chownSync(path, uid, gid);
}

/** A data folder that `holdfast restore` has begun to fill: a file in it says so until the last byte is proven. */
export const UNFINISHED_RESTORE = 'UNFINISHED-RESTORE';

/** @throws ServeError */
export function assertRestored(dataDir: string): void {
  if (!existsSync(join(dataDir, UNFINISHED_RESTORE))) return;
  throw new ServeError(
    `the data folder ${dataDir} holds an unfinished restore: finish it by the same holdfast restore command, or begin with another folder`,
  );
}
