/** Keeps a data folder private that was made, copied or unpacked with wider modes: only its owner may look into it. */

import { chmodSync, lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import { assertOwnFile } from './held-folder.ts';

/** the bits of everybody but the owner */
const OTHERS = 0o077;

/** What servers make in a data folder. Anything else there is somebody else's and keeps its mode. */
const OWN_NAME =
  /^(?:(?:holdfast|registry|lock|live)\.db(?:-wal|-shm|-journal)?|secret\.key|dev-key\.jwk|operator\.sock|operator-token|last-backup|UNFINISHED-RESTORE|content|spool|lost\+found|\.holdfastignore|\.gitignore)$/;

const OWN_FILES: readonly string[] = [
  ...['holdfast', 'registry', 'lock', 'live'].flatMap((name) =>
    ['', '-wal', '-shm', '-journal'].map((suffix) => `${name}.db${suffix}`),
  ),
  ...['secret.key', 'dev-key.jwk', 'operator-token', 'last-backup', 'content/STORE'],
];

/** A pipe in the place of a file of ours holds up whoever opens it, and by a link another file is written. @throws NotOurs */
export function assertOwnFiles(dataDir: string): void {
  for (const name of OWN_FILES) assertOwnFile(join(dataDir, name));
}

/** Whether servers make an entry of that name in a data folder. */
export function isOwnName(name: string): boolean {
  return OWN_NAME.test(name);
}

export interface FolderModes {
  /** paths that others could use, and cannot any more */
  readonly tightened: readonly string[];
  /** paths that others can use still: they belong to another user, or the folder holds other things too */
  readonly open: readonly string[];
}

/** Looks at the folder and at what lies right in it: whoever cannot enter a folder does not reach what is below. */
export function tightenModes(dataDir: string): FolderModes {
  const tightened: string[] = [];
  const open: string[] = [];
  const tighten = (path: string, isOurs: boolean): void => {
    const state = lstatSync(path, { throwIfNoEntry: false });
    const isPlain = state?.isFile() === true || state?.isDirectory() === true;
    if (state === undefined || !isPlain || (state.mode & OTHERS) === 0) return;
    const isDone = isOurs && tryChmod(path, state.isDirectory() ? PRIVATE_FOLDER_MODE : PRIVATE_FILE_MODE);
    (isDone ? tightened : open).push(path);
  };
  const names = readdirSync(dataDir);
  tighten(dataDir, names.every(isOwnName));
  for (const name of names) if (isOwnName(name)) tighten(join(dataDir, name), true);
  return { tightened, open };
}

/** False for what belongs to another user, or lies on a file system that keeps no modes. */
function tryChmod(path: string, mode: number): boolean {
  try {
    chmodSync(path, mode);
    return (lstatSync(path).mode & OTHERS) === 0;
  } catch {
    return false;
  }
}
