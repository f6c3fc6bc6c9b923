/** When the last backup of a data folder succeeded: a file in it, so that a server knows also of backups it had no part in. */
import { join } from 'node:path';
import { HeldFolder, readOwnFile } from '../deployment/held-folder.ts';
import { replaceDurably } from './durable-files.ts';

const LAST_BACKUP = 'last-backup';
const TIME = /^\d{1,16}\n?$/;

/** Durable when it returns. The backup is made, so a data folder that takes no files, such as a read-only one, is no failure. */
export function noteBackup(dataDir: string, at: number): void {
  try {
    const folder = HeldFolder.hold(dataDir);
    try {
      replaceDurably(folder, LAST_BACKUP, Buffer.from(`${at}\n`));
    } finally {
      folder.close();
    }
  } catch {
    // A server then says that the last backup is older than it is.
  }
}

/** ms; 0: never, or nobody knows */
export function readLastBackup(dataDir: string): number {
  try {
    const text = readOwnFile(join(dataDir, LAST_BACKUP), 64)?.toString() ?? '';
    return TIME.test(text) ? Number.parseInt(text, 10) : 0;
  } catch {
    return 0;
  }
}
