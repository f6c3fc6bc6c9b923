/** When the last backup of a data folder succeeded: a file in it, so that a server knows also of backups it had no part in. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { replacePrivateFile } from '../deployment/private-file.ts';

const LAST_BACKUP = 'last-backup';

/** Durable when it resolves. */
export function noteBackup(dataDir: string, at: number): Promise<void> {
  return replacePrivateFile(join(dataDir, LAST_BACKUP), Buffer.from(`${at}\n`));
}

/** ms; 0: never, or nobody knows */
export function readLastBackup(dataDir: string): number {
  try {
    return Number.parseInt(readFileSync(join(dataDir, LAST_BACKUP), 'utf8'), 10) || 0;
  } catch {
    return 0;
  }
}
