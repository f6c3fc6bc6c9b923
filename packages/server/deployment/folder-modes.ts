/** Keeps a data folder private that was made, copied or unpacked with wider modes: only its owner may look into it. */

import { chmodSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import { assertOwnFile } from './held-folder.ts';

/** The files that servers create in a data folder. Anything else there belongs to others and keeps its mode. */
const OWN_NAME =
  /^(?:(?:holdfast|registry|lock|live)\.db(?:-wal|-shm|-journal)?|secret\.key|dev-key\.jwk|operator\.sock|operator-token|last-backup|UNFINISHED-RESTORE|content|spool|lost\+found|\.holdfastignore|\.gitignore)$/;

const OWN_FILES: readonly string[] = [
  ...['holdfast', 'registry', 'lock', 'live'].flatMap((name) =>
    ['', '-wal', '-shm', '-journal'].map((suffix) => `${name}.db${suffix}`),
  ),
  ...['secret.key', 'dev-key.jwk', 'operator-token', 'last-backup', 'content/STORE'],
];

/** A pipe in place of one of our files would block the open, and a link would redirect the write. @throws NotOurs */
export function assertOwnFiles(dataDir: string): void {
  for (const name of OWN_FILES) assertOwnFile(join(dataDir, name));
}

/** Whether servers make an entry of that name in a data folder. */
export function isOwnName(name: string): boolean {
  return OWN_NAME.test(name);
}

export interface FolderModes {
  /** paths that others could access until now */
  readonly tightened: readonly string[];
  /** paths that others can use still: they belong to another user, or the folder holds other things too */
  readonly open: readonly string[];
}

/** Checks the folder and its direct entries: a user who cannot enter a folder cannot reach its contents. */
export function tightenModes(dataDir: string): FolderModes {
  const tightened: string[] = [];
  const open: string[] = [];
  const tighten = (path: string, isOurs: boolean): void => {
    const state = lstatSync(path, { throwIfNoEntry: false });
    const isPlain = state?.isFile() === true || state?.isDirectory() === true;
    if (state === undefined || !isPlain || (state.mode & 0o077) === 0) return;
    const isDone = isOurs && tryChmod(path, state.isDirectory() ? PRIVATE_FOLDER_MODE : PRIVATE_FILE_MODE);
    (isDone ? tightened : open).push(path);
  };
  const names = readdirSync(dataDir);
  tighten(dataDir, names.every(isOwnName));
  for (const name of names) if (isOwnName(name)) tighten(join(dataDir, name), true);
  return { tightened, open };
}

/** Returns false for a file of another user or on a file system without modes. */
function tryChmod(path: string, mode: number): boolean {
  try {
    chmodSync(path, mode);
    return (lstatSync(path).mode & 0o077) === 0;
  } catch {
    return false;
  }
}
