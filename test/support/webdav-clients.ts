/** Programs that speak WebDAV. tools/install-webdav-clients.mjs installs them. */
import { join } from 'node:path';
import { runEngineCommand } from './engine-process.ts';
import { ROOT } from './server-process.ts';

export async function ensureWebdavClients(): Promise<void> {
  await runEngineCommand(['node', join(ROOT, 'tools', 'install-webdav-clients.mjs')]);
}
