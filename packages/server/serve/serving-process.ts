/** One process that serves: a single server, or one of several workers. */

import type { Log } from '../log.ts';
import { watchProcess } from '../metrics/process-metrics.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS, WORKERS } from '../metrics/server-metrics.ts';
import type { ServeConfig } from './config.ts';
import { type Listener, listen } from './listener.ts';
import { type OpenServer, type OpenServerOptions, openServer } from './server.ts';

/** The exit code after a broken invariant or a write of unknown outcome: the supervisor starts the process again. */
const FATAL_EXIT_CODE = 70;

export interface ServingProcess {
  readonly port: number;
  /** What all processes of this server have counted. */
  readMetrics(): Promise<MetricsSnapshot>;
  /** Drains, then closes everything. A second call waits for the same drain. */
  end(): Promise<void>;
}

/** Throws ServeError. */
export async function startServing(
  config: ServeConfig,
  log: Log,
  place: Pick<OpenServerOptions, 'worker' | 'isAlone'> & { readonly port: number },
): Promise<ServingProcess> {
  const onFatal = (error: Error): never => {
    log.fatal({ err: error }, 'the server has to end: it starts clean from what is durable');
    process.exit(FATAL_EXIT_CODE);
  };
  const server = await openServer({ config, log, onFatal, worker: place.worker, isAlone: place.isAlone });
  let listener: Listener;
  try {
    listener = listen(config, place.port, server);
  } catch (error) {
    await server.close();
    throw error;
  }
  const stopWatching = watchProcess();
  WORKERS.set(1);
  let ending: Promise<void> | undefined;
  return {
    port: listener.port,
    readMetrics: async () => METRICS.snapshot(),
    end: () => {
      ending ??= endServing(listener, server).finally(stopWatching);
      return ending;
    },
  };
}

async function endServing(listener: Listener, server: OpenServer): Promise<void> {
  // Requests in flight still need the engines. Background work ends meanwhile.
  void server.background.stop();
  await listener.drain();
  await server.close();
}
