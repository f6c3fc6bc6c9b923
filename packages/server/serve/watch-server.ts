/** Gauges of an open server that are read on each scrape, and the polling that one of them needs. */
import { statfsSync } from 'node:fs';
import { startLoop } from '../background/loop.ts';
import { readLastBackup } from '../backup/last-backup.ts';
import type { Core } from '../core/core.ts';
import type { Log } from '../log.ts';
import {
  BACKUP_LAST_SUCCESS,
  BUILD_INFO,
  ENGINE_UP,
  FREE_BYTES,
  FREE_INODES,
  METRICS,
  ROTTEN_NODES,
} from '../metrics/server-metrics.ts';
import serverPackage from '../package.json' with { type: 'json' };
import type { ServeConfig } from './config.ts';

/** Returns a function that stops it. `isFirst`: whether this process of the server polls the stores. */
export function watchServer(
  { place, dataDir }: ServeConfig,
  core: Core,
  log: Log,
  isFirst: boolean,
): () => Promise<void> {
  const isFolder = place.rows.kind === 'folder' || place.bytes.kind === 'folder';
  BUILD_INFO.set({ version: serverPackage.version, bun: Bun.version }, 1);
  // Network stores report the result of their last request.
  ENGINE_UP.set({ engine: place.rows.kind === 'folder' ? 'sqlite' : 'postgres' }, 1);
  ENGINE_UP.set({ engine: place.bytes.kind === 'folder' ? 'disk' : 's3' }, 1);
  const bucketBackup = isFirst ? watchBucketBackup(core, log) : undefined;
  const stopReading = METRICS.readBefore(() => {
    ROTTEN_NODES.set(core.rottenNodes.total());
    if (isFolder) readDisk(dataDir);
    if (!isFirst) return;
    const folderBackupAt = place.rows.kind === 'folder' ? readLastBackup(place.rows.dataDir) : 0;
    BACKUP_LAST_SUCCESS.set(olderBackup(folderBackupAt, bucketBackup?.readAt() ?? 0) / 1000);
  });
  return async () => {
    stopReading();
    await bucketBackup?.stop();
  };
}

/** Asks the bucket every minute when it was last backed up, so that a scrape waits for no request. */
function watchBucketBackup({ content: { lastBackup } }: Core, log: Log) {
  if (lastBackup === undefined) return undefined;
  let at = 0;
  const step = async (): Promise<number> => {
    at = (await lastBackup.read()) ?? 0;
    // Each look is a request.
    return 60_000;
  };
  const { stop } = startLoop({ name: 'backups', log, step, retryMs: 5_000 });
  return { readAt: () => at, stop };
}

/** If rows and bytes are backed up separately, the older backup decides what can be restored. An unknown time (0) does not count. */
function olderBackup(first: number, second: number): number {
  return first === 0 || second === 0 ? Math.max(first, second) : Math.min(first, second);
}

/** The space available to an unprivileged user; 0 if unknown. */
function readDisk(folder: string): void {
  let disk = { bavail: 0, bsize: 0, ffree: 0 };
  try {
    disk = statfsSync(folder);
  } catch {
    // The gauges say 0 then.
  }
  FREE_BYTES.set(disk.bavail * disk.bsize);
  FREE_INODES.set(disk.ffree);
}
