/** The time of the last successful backup of a data folder, in a file, so that a server knows of backups that it did not make. */
import { join } from 'node:path';
import { HeldFolder, readOwnFile } from '../deployment/held-folder.ts';
import { replaceDurably } from './durable-files.ts';

const LAST_BACKUP = 'last-backup';
const TIME = /^\d{1,16}\n?$/;

/** Durable when it returns. A data folder that cannot be written is not an error, because the backup is complete. */
export function noteBackup(dataDir: string, at: number): void {
  try {
    const folder = HeldFolder.hold(dataDir);
    try {
      replaceDurably(folder, LAST_BACKUP, Buffer.from(`${at}\n`));
    } finally {
      folder.close();
    }
  } catch {
    // The server then reports an older backup time.
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
