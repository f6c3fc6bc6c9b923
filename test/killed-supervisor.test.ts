/** kill -9 of a real supervisor: its workers end by themselves, and no server starts beside one that hangs. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  findDescendants,
  type ServerOptions,
  startServer,
  tryStartServer,
} from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

/** A zombie holds nothing: who takes it away depends on the system. */
function isGone(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return true;
  }
}

test('workers end soon after their killed supervisor, and one that hangs keeps the folder locked', async () => {
  const folder = makeTempFolder('killed-supervisor');
  const options: ServerOptions = { data: join(folder.path, 'data'), arguments: ['--workers', '2'] };
  const server = await startServer(options);
  const workers = findDescendants(server.pid);
  const hung = workers[0] as number;
  try {
    expect(workers).toHaveLength(2);
    process.kill(hung, 'SIGSTOP');
    expect(await server.end('SIGKILL')).toBe('SIGKILL');
    await until(() => isGone(workers[1] as number));
    for (const refused of [options, { data: options.data }]) {
      const outcome = await tryStartServer(refused);
      if ('url' in outcome) await outcome.end('SIGKILL');
      expect('stderr' in outcome ? outcome.stderr : 'it serves').toMatch(
        /^holdfast: workers of a server that was killed still use the data folder .*\n$/m,
      );
    }
    process.kill(hung, 'SIGCONT');
    await until(() => isGone(hung));
    const next = await startServer(options);
    expect(await next.end('SIGTERM')).toBe(0);
  } finally {
    for (const pid of workers) if (!isGone(pid)) process.kill(pid, 'SIGKILL');
    if (server.isRunning()) await server.end('SIGKILL');
    folder.remove();
  }
}, 300_000);
