/** A worker process: obeys its supervisor and ends with it. */

import type { AuditLine } from '../audit/audit-event.ts';
import { joinDataFolder } from '../deployment/data-folder.ts';
import { ServeError } from '../errors.ts';
import { openLog } from '../log.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { LOG_DROPPED } from '../metrics/server-metrics.ts';
import { type OneServingProcess, startServing } from './serving-process.ts';
import type { AskMessage, FromWorker, ToWorker } from './worker-messages.ts';
import { Questions } from './worker-messages.ts';

let serving: OneServingProcess | undefined;
/** The supervisor's process id: a supervisor that gives an order was alive when this process began. */
const supervisorPid = process.ppid;

const tell = (message: FromWorker): void => {
  process.send?.(message);
};

async function start(order: Extract<ToWorker, { kind: 'start' }>): Promise<void> {
  const { config, kind: _, ...place } = order;
  const { worker } = place;
  const log = openLog(config.logLevel, { worker }, (lines) => LOG_DROPPED.add(lines));
  try {
    if (config.place.rows.kind === 'folder') joinDataFolder(config.place.rows.dataDir);
    // From here on no other server can take the folder. One may have taken it before, if the supervisor died.
    if (process.ppid !== supervisorPid) process.exit(1);
    serving = await startServing(config, log, { ...place, readSum, gatherAudit });
    tell({ kind: 'listening', port: serving.port, operatorPort: serving.operatorPort });
  } catch (error) {
    if (!(error instanceof ServeError)) log.fatal({ err: error }, 'a worker could not start');
    tell({ kind: 'failed', message: error instanceof Error ? error.message : String(error) });
    process.exitCode = 1;
    process.disconnect?.();
  }
}

/** A worker that does not serve yet has no answer. */
async function answer({ id, question }: AskMessage): Promise<void> {
  const own = question.kind === 'metrics' ? serving?.readMetrics() : serving?.readAudit(question.limit);
  tell({ kind: 'answer', id, answer: await own });
}

const questions = new Questions();
const supervisor = { send: tell };

const gatherAudit = async (limit: number): Promise<readonly AuditLine[]> =>
  (await questions.ask<readonly AuditLine[]>(supervisor, { kind: 'audit', limit })) ?? [];

const readSum = async (): Promise<MetricsSnapshot> =>
  (await questions.ask<MetricsSnapshot>(supervisor, { kind: 'metrics' })) ?? {};

async function drain(): Promise<void> {
  await serving?.end();
  process.exit(0);
}

export function runWorker(): void {
  process.on('message', (message: ToWorker) => {
    if (message.kind === 'start') void start(message);
    else if (message.kind === 'ask') void answer(message);
    else if (message.kind === 'answer') questions.take(message);
    else if (message.kind === 'reopen-audit') serving?.reopenAudit();
    else void drain();
  });
  // Without a supervisor this process must end: a new server waits for its folder and its port.
  process.on('disconnect', () => process.exit(process.exitCode ?? 1));
  process.on('SIGTERM', () => void drain());
  // A terminal sends SIGINT to the whole process group. The supervisor tells its workers to drain.
  process.on('SIGINT', () => undefined);
  // The supervisor forwards the order to reopen the audit log. A supervisor that has no audit log ends by this signal, and its workers
  // with it.
  process.on('SIGHUP', () => undefined);
  tell({ kind: 'ready' });
}
