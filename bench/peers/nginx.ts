/** nginx serving a folder of plain files: one worker, sendfile, no log, connections kept open. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from '../bench.ts';
import { findFreePort, type ServerProcess, startServer } from '../child-process.ts';
import { findProgram } from './packages.ts';

export interface NginxPeer {
  readonly process: ServerProcess;
  readonly port: number;
}

/** Serves `files` (name → bytes) at `/name`; `isWritable`: takes more by PUT. */
export async function startNginx(
  bench: Bench,
  files: ReadonlyMap<string, Uint8Array>,
  { isWritable = false } = {},
): Promise<NginxPeer> {
  const program = findProgram('nginx');
  if (program === undefined) throw new Error('nginx is not installed.');
  const folder = join(bench.folder, 'nginx');
  const root = join(folder, 'files');
  mkdirSync(root, { recursive: true });
  for (const [name, bytes] of files) writeFileSync(join(root, name), bytes);
  const port = findFreePort();
  const config = join(folder, 'nginx.conf');
  writeFileSync(config, formatConfig(folder, root, port, isWritable));
  const command = [program, '-c', config, '-p', folder, '-e', join(folder, 'error.log')];
  const started = await startServer(command, {
    core: bench.cores?.server,
    logFile: join(folder, 'stderr.log'),
    ready: { port },
  });
  return { process: started, port };
}

function formatConfig(folder: string, root: string, port: number, isWritable: boolean): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `  ${name}_temp_path ${folder}/${name};`)
    .join('\n');
  const user = process.getuid?.() === 0 ? 'user root;\n' : '';
  return `${user}daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log warn;
events { worker_connections 1024; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  default_type application/octet-stream;
  # Files are immutable here as they are with us, so keeping their descriptors open is fair to both.
  open_file_cache max=10000 inactive=1h;
  open_file_cache_valid 1h;
${temporary}
  server { listen 127.0.0.1:${port} reuseport; root ${root};${isWritable ? ' dav_methods PUT;' : ''} }
}
`;
}
