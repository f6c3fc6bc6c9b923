/** Debian's docker-registry on its filesystem driver: quiet, no authentication, no cache to warm. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from '../bench.ts';
import { findFreePort, type ServerProcess, startServer } from '../child-process.ts';
import { findProgram } from './packages.ts';

export interface RegistryPeer {
  readonly process: ServerProcess;
  readonly port: number;
}

export async function startRegistry(bench: Bench): Promise<RegistryPeer> {
  const program = findProgram('docker-registry');
  if (program === undefined) throw new Error('docker-registry is not installed.');
  const folder = join(bench.folder, 'docker-registry');
  mkdirSync(join(folder, 'data'), { recursive: true });
  const port = findFreePort();
  const config = join(folder, 'config.yml');
  writeFileSync(
    config,
    `version: 0.1
log: { level: error, accesslog: { disabled: true } }
storage:
  filesystem: { rootdirectory: ${join(folder, 'data')}, maxthreads: 100 }
  maintenance: { uploadpurging: { enabled: false } }
http: { addr: 127.0.0.1:${port} }
`,
  );
  const started = await startServer([program, 'serve', config], {
    core: bench.cores?.server,
    logFile: join(folder, 'stderr.log'),
    env: { OTEL_TRACES_EXPORTER: 'none' },
    ready: { port },
  });
  return { process: started, port };
}
