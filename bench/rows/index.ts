/** Every row of the table, in the order they run. */
import type { Row } from '../bench.ts';
import { BACKUP_AGAIN_ROW, BACKUP_ROW } from './backup.ts';
import { BULK_READS_ROW } from './bulk-reads.ts';
import { BULK_SCALEOUT_ROW } from './bulk-scaleout.ts';
import { COMMITS_ROW } from './commits.ts';
import { COMPACTION_ROW } from './compaction.ts';
import { CONTENT_ROW } from './content.ts';
import { COPY_ROW, DOOR_CACHE_ROW, DOOR_MOUNT_ROW, DOOR_WEBDAV_ROW } from './doors.ts';
import { MEMORY_ROW } from './memory.ts';
import { METADATA_ROW } from './metadata.ts';
import { OVERHEAD_ROW } from './overhead.ts';
import { PUSH_LARGE_ROW } from './push-large.ts';
import { PUSH_TREE_ROW } from './push-tree.ts';
import { RENEWAL_ROW } from './renewal.ts';
import { SCALE_ROW } from './scale.ts';
import { SCALE_LARGE_ROW } from './scale-large.ts';
import { SCALEOUT_ROW } from './scaleout.ts';
import { SCALEOUT_SIZING_ROW } from './scaleout-sizing.ts';
import { SLOW_DISK_ROW } from './slow-disk.ts';
import { SMALL_UPLOADS_ROW } from './small-uploads.ts';

export const ROWS: readonly Row[] = [
  METADATA_ROW,
  OVERHEAD_ROW,
  CONTENT_ROW,
  RENEWAL_ROW,
  SLOW_DISK_ROW,
  SMALL_UPLOADS_ROW,
  BULK_READS_ROW,
  COMPACTION_ROW,
  COMMITS_ROW,
  SCALE_ROW,
  BACKUP_ROW,
  BACKUP_AGAIN_ROW,
  MEMORY_ROW,
  PUSH_TREE_ROW,
  PUSH_LARGE_ROW,
  DOOR_WEBDAV_ROW,
  DOOR_MOUNT_ROW,
  DOOR_CACHE_ROW,
  COPY_ROW,
  SCALEOUT_ROW,
  BULK_SCALEOUT_ROW,
  SCALEOUT_SIZING_ROW,
  SCALE_LARGE_ROW,
];
