/** The start of most system tests: a fresh data folder, one App, a real server, a client for one Space. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Issuer, makeIssuer } from './issuer.ts';
import { addApp, type ServerOptions, type ServerProcess, startServer } from './server-process.ts';
import { makeSpaceClient, type SpaceClient } from './space-client.ts';
import { makeTempFolder } from './temp-folder.ts';

export const APP = 'app';
export const SPACE = 'space';

export interface RunningServer {
  readonly data: string;
  readonly issuer: Issuer;
  server: ServerProcess;
  /** a client of `spaceId` on the server that runs now */
  client(spaceId?: string): SpaceClient;
  restart(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** ends the server and removes its data */
  remove(): Promise<void>;
}

export async function startFreshServer(
  purpose: string,
  options: Omit<ServerOptions, 'data'> = {},
): Promise<RunningServer> {
  const folder = makeTempFolder(purpose);
  const data = join(folder.path, 'data');
  mkdirSync(data);
  const issuer = makeIssuer();
  await addApp(data, APP, issuer);
  const running: RunningServer = {
    data,
    issuer,
    server: await startServer({ data, ...options }),
    client: (spaceId = SPACE) => makeSpaceClient(running.server.url, APP, spaceId, issuer.token(spaceId)),
    async restart(signal) {
      await running.server.end(signal);
      running.server = await startServer({ data, ...options });
    },
    async remove() {
      if (running.server.isRunning()) await running.server.end('SIGKILL');
      folder.remove();
    },
  };
  return running;
}
