/** How long this disk takes to make 4 KiB durable: every durable row rests on it. */
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { median } from './stats.ts';

export function measureFsyncMs(folder: string, count = 200): number {
  const path = join(folder, 'fsync-probe');
  const file = openSync(path, 'w');
  const block = new Uint8Array(4096);
  const times: number[] = [];
  try {
    for (let index = 0; index < count; index++) {
      const startedAt = performance.now();
      writeSync(file, block);
      fdatasyncSync(file);
      times.push(performance.now() - startedAt);
    }
  } finally {
    closeSync(file);
    rmSync(path);
  }
  return median(times);
}
