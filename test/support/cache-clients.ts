/** ccache and git-lfs of the distribution. tools/debian-programs.mjs installs them. */
import { join } from 'node:path';
import { runEngineCommand } from './engine-process.ts';
import { ROOT } from './server-process.ts';

/** Seeks the programs, and installs them at need. */
export async function ensureCacheClients(): Promise<void> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'cache-clients']);
}
