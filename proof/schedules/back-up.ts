/** A backup that is made between two steps of an operation. */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeBackup } from '../../packages/server/backup/make-backup.ts';
import { restoreBackup } from '../../packages/server/backup/restore-backup.ts';
import { openFolder } from '../row-rot/world.ts';
import type { Play } from './play.ts';

/** It gives back all that is held when it begins. Bytes that clients write to a store themselves are the matter of that store. */
export async function backUp(play: Play): Promise<void> {
  const { dataDir, direct, clock } = play.world;
  if (dataDir === undefined || direct !== undefined) return;
  const held = play.nodes.filter((node) => play.isHeld(node) && !play.lost.has(node.hash));
  const around = mkdtempSync(join(dataDir, '..', 'backup-'));
  const [folder, restored] = [join(around, 'backup'), join(around, 'restored')];
  const mask = process.umask();
  try {
    const { lostObjects } = await makeBackup({ dataDir, folder }, { onProgress: () => undefined });
    if (lostObjects !== 0 && play.lost.size === 0) play.wrong.push(`a backup lacks ${lostObjects} objects`);
    await restoreBackup({ folder, dataDir: restored }, { onProgress: () => undefined });
    const world = await openFolder(restored)(clock.now, 7);
    try {
      for (const node of held) await play.read(world.core, node, 'in a restored backup');
    } finally {
      await world.close();
    }
  } catch (error) {
    play.wrong.push(`a backup fails: ${error instanceof Error ? error.stack : String(error)}`);
  } finally {
    process.umask(mask);
    rmSync(around, { recursive: true });
  }
}
