/** The owner of a data folder: a file that another user made there stops the server, so only the owner works on it unless permitted. */
import { chmodSync, lstatSync, readdirSync, readFileSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE } from '@holdfast/protocol';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';
import { SECRET_NAME } from './folder-secret.ts';
import { assertOwnFile } from './held-folder.ts';
import { parseSwitch } from './parse-switch.ts';

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
function assertOwnFiles(dataDir: string): void {
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

/**
 * Keeps a folder private that was made, copied or unpacked with wider modes. It checks the folder and its direct entries: a user
 * who cannot enter a folder cannot reach its contents.
 */
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

/** The permission of this process and of those that it starts; the flag of the command line sets it. */
const VARIABLE = 'HOLDFAST_ALLOW_FOREIGN_OWNER';

type Environment = Readonly<Record<string, string | undefined>>;

/** Throws ConfigError. */
export function isForeignOwnerAllowed(env: Environment): boolean {
  return parseSwitch(VARIABLE, env);
}

/** An empty folder may have any owner. Throws ServeError for another user's folder or file, ConfigError, or the error of the disk. */
export function assertFolderOwner(dataDir: string, env: Environment = process.env): void {
  const runner = process.geteuid?.();
  const folder = findFolder(dataDir);
  if (folder !== undefined) assertOwnFiles(dataDir);
  if (runner === undefined || folder === undefined || folder.uid === runner) return;
  if (isForeignOwnerAllowed(env) || readdirSync(dataDir).length === 0) return;
  if (folder.uid === 0 && isOfRunner(join(dataDir, SECRET_NAME), runner)) return;
  const owner = nameUser(folder.uid);
  throw new ServeError(
    `the data folder ${dataDir} belongs to ${owner}, and this command runs as ${nameUser(runner)}: run it as ${owner}, or give the folder and all in it to the user who runs it (chown -R), or add --allow-foreign-owner`,
  );
}

/** The folder, as `assertFolderOwner` finds it good. */
export function ownedFolder(dataDir: string): string {
  assertFolderOwner(dataDir);
  return dataDir;
}

/** Volumes of an orchestrator may belong to root and not be empty. So files that a server created there show the owner. */
function isOfRunner(path: string, runner: number): boolean {
  const made = statSync(path, { throwIfNoEntry: false });
  return made === undefined || made.uid === runner;
}

/** Ignores an entry that is not a folder, because its opening fails with a message of its own. */
function findFolder(path: string): Stats | undefined {
  try {
    const found = statSync(path);
    return found.isDirectory() ? found : undefined;
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
    return undefined;
  }
}

function nameUser(uid: number): string {
  const name = findUserName(uid);
  return name === undefined ? `user ${uid}` : `user ${name} (${uid})`;
}

/** Undefined: the users of this machine are elsewhere, or it has none of this number. */
function findUserName(uid: number): string | undefined {
  try {
    const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
    const name = lines.map((line) => line.split(':')).find((fields) => fields[2] === String(uid))?.[0];
    // A terminal shows the name.
    return name !== undefined && /^[\w.-]+$/.test(name) ? name : undefined;
  } catch {
    return undefined;
  }
}
