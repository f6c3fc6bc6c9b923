/** Folders of Holdfast itself, told by what is in them: no push stores a server's data folder or a backup, with all tenants' keys. */
import { closeSync, lstatSync, openSync, readSync, realpathSync } from 'node:fs';
import { byteStringOf, displayName, toFsPath } from '../byte-names.ts';
import type { ByteString } from '../byte-string.ts';
import { IGNORE_FILE_NAME } from './ignore-rules.ts';
import type { NameList } from './name-list.ts';
import { isSystemError, OwnFolderError } from './scan-problem.ts';
import type { SourceFolder } from './source-tree.ts';

const LOCK = 'lock.db';
const DATABASES: readonly string[] = ['registry.db', 'holdfast.db'];
const SECRET = 'secret.key';
const OPERATOR_TOKEN = 'operator-token';
const DEV_KEY = 'dev-key.jwk';
const MARKS: readonly string[] = [IGNORE_FILE_NAME, '.gitignore'];
const MANIFESTS: readonly string[] = ['BACKUP', 'BUCKET'];
/** The folders of an interrupted first backup, which has no manifest yet. */
const UNFINISHED: readonly string[] = ['incoming', 'lists'];
/** Earlier versions kept 32 bytes. */
const SECRET_START = /^\{"version":1,"secrets":\[/;
/** The form of a manifest stands at its beginning. */
const MANIFEST_START = /^\{"format":\d+,/;

type Names = Pick<NameList, 'has'>;
type Folder = Pick<SourceFolder, 'lookAt' | 'openFile'>;

/** Names the kind of folder for people; undefined for every other folder. `names`: of all entries in it. */
export function describeOwnFolder(names: Names, folder: Folder): string | undefined {
  if (isDataFolder(names, folder)) return 'the data folder of a Holdfast server';
  return isBackup(names, folder) ? 'a backup of a Holdfast server' : undefined;
}

/** A part of such a folder that is named by itself holds as much. `path` is absolute. Throws OwnFolderError. */
export function assertNoPart(path: ByteString): void {
  const parent = toFsPath(path.slice(0, path.lastIndexOf('/')) || '/');
  let above = byteStringOf(realpathSync(parent, { encoding: 'buffer' }));
  for (; above !== ''; above = above.slice(0, above.lastIndexOf('/'))) {
    const at = (name: ByteString) => toFsPath(`${above}/${name}`);
    const folder: Folder = {
      lookAt: (name) => lstatSync(at(name), { throwIfNoEntry: false }),
      openFile: (name) => openSync(at(name), 'r'),
    };
    const kind = describeOwnFolder({ has: (name) => folder.lookAt(name) !== undefined }, folder);
    if (kind !== undefined) throw new OwnFolderError(displayName(path), `a part of ${kind}`);
  }
}

function isDataFolder(names: Names, folder: Folder): boolean {
  // With the rows in a database elsewhere, the folder holds keys and tokens alone; before the first start, Apps alone.
  if (names.has(OPERATOR_TOKEN) && names.has(DEV_KEY)) return true;
  const isMarked = MARKS.every((name) => names.has(name));
  if (isMarked && [OPERATOR_TOKEN, ...DATABASES].some((name) => names.has(name))) return true;
  if (!hasLock(names, folder)) return false;
  return (
    DATABASES.some((name) => names.has(name)) ||
    isFileOf(32, SECRET, names, folder) ||
    startsLike(SECRET_START, SECRET, names, folder)
  );
}

function isBackup(names: Names, folder: Folder): boolean {
  if (MANIFESTS.some((name) => startsLike(MANIFEST_START, name, names, folder))) return true;
  return UNFINISHED.every((name) => names.has(name)) && hasLock(names, folder);
}

/** The lock is a database that never holds anything. */
function hasLock(names: Names, folder: Folder): boolean {
  return isFileOf(0, LOCK, names, folder);
}

function isFileOf(bytes: number, name: string, names: Names, folder: Folder): boolean {
  if (!names.has(name)) return false;
  const found = folder.lookAt(name);
  return found?.isFile() === true && found.size === bytes;
}

function startsLike(start: RegExp, name: string, names: Names, folder: Folder): boolean {
  return names.has(name) && start.test(readStart(name, folder));
}

function readStart(name: string, folder: Folder): string {
  if (folder.lookAt(name)?.isFile() !== true) return '';
  try {
    const file = folder.openFile(name);
    try {
      const start = Buffer.alloc(64);
      return start.toString('latin1', 0, readSync(file, start));
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (isSystemError(error)) return '';
    throw error;
  }
}
