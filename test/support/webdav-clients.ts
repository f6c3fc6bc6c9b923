/** Programs that speak WebDAV. tools/debian-programs.mjs installs them. */
import { join } from 'node:path';
import { runEngineCommand } from './engine-process.ts';
import { ROOT } from './server-process.ts';

export async function ensureWebdavClients(): Promise<void> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'debian-programs.mjs'), 'webdav-clients']);
}
