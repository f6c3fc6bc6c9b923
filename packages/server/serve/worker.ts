/** The process of one worker: does what its supervisor says, and never outlives it. */

import { ServeError } from '../errors.ts';
import { openLog } from '../log.ts';
import { type ServingProcess, startServing } from './serving-process.ts';
import type { FromWorker, ToWorker } from './worker-messages.ts';

let serving: ServingProcess | undefined;

const tell = (message: FromWorker): void => {
  process.send?.(message);
};

async function start(order: Extract<ToWorker, { kind: 'start' }>): Promise<void> {
  const { config, worker, port, isAlone } = order;
  const log = openLog(config.logLevel, { worker });
  try {
    serving = await startServing(config, log, { worker, port, isAlone });
    tell({ kind: 'listening', port: serving.port });
  } catch (error) {
    if (!(error instanceof ServeError)) log.fatal({ err: error }, 'a worker could not start');
    tell({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
    process.exitCode = 1;
    process.disconnect?.();
  }
}

async function drain(): Promise<void> {
  await serving?.end();
  process.exit(0);
}

/** Makes this process a worker of the server that started it. */
export function runWorker(): void {
  process.on('message', (message: ToWorker) => {
    if (message.kind === 'start') void start(message);
    else void drain();
  });
  // A data folder's lock is the supervisor's: without it this process has no right to go on.
  process.on('disconnect', () => process.exit(process.exitCode ?? 1));
  process.on('SIGTERM', () => void drain());
  // A terminal sends it to the whole group; the supervisor says what it means.
  process.on('SIGINT', () => undefined);
  tell({ kind: 'ready' });
}
