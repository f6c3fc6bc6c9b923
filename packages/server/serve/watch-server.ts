/** The gauges of an open server that are read when somebody looks. */

import { statfsSync } from 'node:fs';
import { readLastBackup } from '../backup/last-backup.ts';
import type { Core } from '../core/core.ts';
import {
  BACKUP_LAST_SUCCESS,
  BUILD_INFO,
  ENGINE_UP,
  FREE_BYTES,
  METRICS,
  ROTTEN_NODES,
} from '../metrics/server-metrics.ts';
import serverPackage from '../package.json' with { type: 'json' };
import type { ServeConfig } from './config.ts';

/** Returns what ends it. */
export function watchServer({ place, dataDir }: ServeConfig, core: Core): () => void {
  const isFolder = place.rows.kind === 'folder' || place.bytes.kind === 'folder';
  BUILD_INFO.set({ version: serverPackage.version, bun: Bun.version }, 1);
  // Stores across a network say themselves what became of their last request.
  ENGINE_UP.set({ engine: place.rows.kind === 'folder' ? 'sqlite' : 'postgres' }, 1);
  ENGINE_UP.set({ engine: place.bytes.kind === 'folder' ? 'disk' : 's3' }, 1);
  return METRICS.readBefore(() => {
    ROTTEN_NODES.set(core.rottenNodes.total());
    if (isFolder) FREE_BYTES.set(readFreeBytes(dataDir));
    if (place.rows.kind === 'folder') BACKUP_LAST_SUCCESS.set(readLastBackup(place.rows.dataDir) / 1000);
  });
}

/** What a user without privileges may still write; 0 where the system does not say. */
function readFreeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return 0;
  }
}
