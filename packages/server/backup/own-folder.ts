/** Checks before a backup writes into a folder: the folder is a backup folder, and the data is that of the former backup. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { assertNotNested, holdDataFolder, LOCK_NAME } from '../deployment/data-folder.ts';
import { FOLDER_MARKS, markFolder } from '../deployment/folder-marks.ts';
import { HeldFolder, makeNamedFolder } from '../deployment/held-folder.ts';
import type { FolderFormat } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import type { Manifest } from './manifest.ts';
import { Repository } from './repository.ts';

/** A new file system has it. */
const LOST_AND_FOUND = 'lost+found';

export interface Source {
  readonly format: FolderFormat;
  readonly dataDir: string;
}

export interface HeldBackupFolder {
  readonly repository: Repository;
  readonly former: Manifest | undefined;
  release(): void;
}

/** Opens the folder, creating it if missing. A refused folder is unchanged. @throws ServeError, or a disk error */
export function holdBackupFolder(path: string, source: Source): HeldBackupFolder {
  assertNotNested(path);
  const stood = statSync(path, { throwIfNoEntry: false });
  if (stood?.isDirectory() === false) throw new ServeError(`${path} is no folder: choose another path`);
  if (stood === undefined) makeNamedFolder(path);
  const folder = HeldFolder.hold(path);
  try {
    const repository = new Repository(folder);
    // Checked before anything is created there, and again with the lock.
    assertOwn(repository, source);
    const held = holdLock(path);
    const former = assertOwn(repository, source);
    markFolder(path);
    const release = (): void => {
      held.release();
      folder.close();
    };
    return { repository, former, release };
  } catch (error) {
    folder.close();
    throw error;
  }
}

function holdLock(root: string): ReturnType<typeof holdDataFolder> {
  try {
    return holdDataFolder(root, { isBackup: true });
  } catch (error) {
    if (!(error instanceof ServeError)) throw error;
    const message = error.message.includes('in use')
      ? `another backup into ${root} is under way: wait for it, or choose another folder`
      : error.message.replace('the data folder', 'the folder').replace('--data folder', 'folder');
    throw new ServeError(message, { cause: error });
  }
}

/** The former backup, if any. */
function assertOwn(repository: Repository, { format, dataDir }: Source): Manifest | undefined {
  const { root } = repository;
  const former = repository.findManifest();
  if (former === undefined) {
    const own = [LOCK_NAME, LOST_AND_FOUND, ...FOLDER_MARKS];
    const others = readdirSync(root).filter((name) => !own.includes(name));
    if (others.length === 0 || others.includes('UNFINISHED')) return undefined;
    throw new ServeError(
      `${root} is not empty and holds no backup: give an empty folder, or one that holds a backup of this data`,
    );
  }
  // Without this check, another data folder in the same place (such as an unmounted disk's mount point) would replace the backup.
  if (former.deployment === undefined || format.identitiesOf(dataDir).includes(former.deployment))
    return former;
  throw new ServeError(
    `${root} holds the backup of another deployment than ${dataDir}: check that its disk is mounted, or give another folder for the backup; nothing was changed`,
  );
}

/** Without the content folder of the rows, nothing is known about objects. */
export function assertContent({ format, dataDir }: Source): void {
  const noted = format.notedMarkerOf(dataDir);
  const isOwn = noted === undefined || format.markerOf(dataDir) === noted;
  if (format.areBytesElsewhere(dataDir) || isOwn) return;
  throw new ServeError(
    `the content folder ${join(dataDir, 'content')} is not the store that these rows belong to: is its disk mounted? The former backup is unchanged`,
  );
}
