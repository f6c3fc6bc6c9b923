/** `--workers N`: several server processes on one port, restarted when they die. */
import type { Subprocess } from 'bun';
import type { AuditLine } from '../audit/audit-event.ts';
import { takeTimeOrigin } from '../engine/steady-clock.ts';
import { ServeError } from '../errors.ts';
import type { Log } from '../log.ts';
import { watchProcess } from '../metrics/process-metrics.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { mergeSnapshots, withoutGauges } from '../metrics/registry.ts';
import { METRICS, WORKER_DEATHS } from '../metrics/server-metrics.ts';
import type { LoadedTokens } from '../operator/operator-tokens.ts';
import type { SignInCode } from '../operator/sign-in.ts';
import type { ServeConfig } from './config.ts';
import { assertPortIsFree } from './listener.ts';
import type { ServingProcess } from './serving-process.ts';
import type { AskMessage, FromWorker, ToWorker } from './worker-messages.ts';
import { Questions, withinSecond } from './worker-messages.ts';

const RESTART_MS_MIN = 200;

type ProgramCommand = readonly [string, ...string[]];

export interface StartedProgram {
  /** before the words of a command */
  readonly command: ProgramCommand;
  /** a process that calls `runWorker` */
  readonly workerCommand: ProgramCommand;
}

/** The secrets for the worker that has the listener for operators. */
interface SupervisedOperators {
  readonly signInCode: SignInCode | undefined;
  readonly tokens: LoadedTokens | undefined;
}

interface Supervision {
  readonly config: ServeConfig;
  readonly log: Log;
  readonly program: StartedProgram;
  port: number;
  /** the first worker's, for its replacement */
  operatorPort: number | undefined;
  readonly operators: SupervisedOperators;
  /** A replacement worker continues with it. */
  readonly timeOrigin: number;
  isEnding: boolean;
  readonly running: Map<number, Subprocess>;
  readonly timers: Set<Timer>;
  readonly questions: Questions<Subprocess>;
  readonly metrics: WorkerMetrics;
}

/** Resolves when every worker listens. Throws ServeError. */
export async function startSupervising(
  config: ServeConfig,
  log: Log,
  program: StartedProgram,
  operators: SupervisedOperators,
): Promise<ServingProcess> {
  assertPortIsFree(config.host, config.port);
  const questions = new Questions<Subprocess>();
  const supervision: Supervision = {
    config,
    log,
    program,
    operators,
    timeOrigin: takeTimeOrigin(),
    port: config.port,
    operatorPort: undefined,
    isEnding: false,
    running: new Map(),
    timers: new Set(),
    questions,
    metrics: new WorkerMetrics(questions),
  };
  try {
    // The first worker chooses the port and prepares the data folder; the others use both.
    supervision.port = await startWorker(supervision, 0, RESTART_MS_MIN, true);
    const others = Array.from({ length: config.workers - 1 }, (_, index) => index + 1);
    await Promise.all(others.map((worker) => startWorker(supervision, worker, RESTART_MS_MIN)));
  } catch (error) {
    await endWorkers(supervision);
    throw error;
  }
  const stopWatching = watchProcess();
  let ending: Promise<void> | undefined;
  return {
    port: supervision.port,
    readMetrics: () => supervision.metrics.read(),
    operatorPort: supervision.operatorPort,
    reopenAudit: () => tellAll(supervision, { kind: 'reopen-audit' }),
    end: () => {
      ending ??= endWorkers(supervision).finally(stopWatching);
      return ending;
    },
  };
}

/** Resolves with the port when it listens. Rejects with ServeError when it fails to start. */
function startWorker(
  supervision: Supervision,
  worker: number,
  restartMs: number,
  isAlone = false,
): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let listeningAt: number | undefined;
  const onMessage = (message: FromWorker, child: Subprocess): void => {
    if (message.kind === 'ready') {
      const { config, port, operatorPort, timeOrigin } = supervision;
      const { tokens, signInCode: code } = supervision.operators;
      const signInCode = isAlone ? code : undefined;
      const program = supervision.program.command;
      const place = { worker, port, operatorPort, isAlone, timeOrigin, signInCode, tokens, program };
      child.send({ kind: 'start', config, ...place } satisfies ToWorker);
    } else if (message.kind === 'listening') {
      listeningAt = performance.now();
      supervision.metrics.add(child);
      supervision.operatorPort ??= message.operatorPort;
      resolve(message.port);
    } else if (message.kind === 'ask') {
      void answer(supervision, child, message);
    } else if (message.kind === 'answer') {
      supervision.questions.take(message);
    } else {
      reject(new ServeError(message.message));
    }
  };
  const child = Bun.spawn([...supervision.program.workerCommand], {
    argv0: process.argv0,
    stdio: ['ignore', supervision.config.audit?.target.kind === 'stdout' ? 'inherit' : 'ignore', 'inherit'],
    ipc: onMessage,
    onExit: (ended, exitCode, signalCode) => {
      supervision.metrics.remove(ended);
      supervision.questions.drop(ended);
      supervision.running.delete(worker);
      if (supervision.isEnding) return;
      if (listeningAt === undefined) {
        reject(
          new ServeError(
            `worker ${worker} ended before it listened (${signalCode ?? exitCode}): see the log`,
          ),
        );
        return;
      }
      // The next restart of a healthy worker waits only the shortest time again.
      const wasHealthy = performance.now() - listeningAt > 60_000;
      restartLater(supervision, worker, wasHealthy ? RESTART_MS_MIN : restartMs, signalCode ?? exitCode);
    },
  });
  supervision.running.set(worker, child);
  return promise;
}

/** A worker that asked and then ended gets no answer. */
async function answer(
  supervision: Supervision,
  child: Subprocess,
  { id, question }: AskMessage,
): Promise<void> {
  const { metrics, running } = supervision;
  const read = question.kind === 'metrics' ? metrics.read() : gatherAudit(supervision, question.limit);
  const message: ToWorker = { kind: 'answer', id, answer: await read };
  if (![...running.values()].includes(child)) return;
  try {
    child.send(message);
  } catch {
    // The supervisor notices its end separately.
  }
}

/** The newest lines of the audit log of all workers, newest first: each keeps its own in memory. */
async function gatherAudit(
  { questions, running }: Supervision,
  limit: number,
): Promise<readonly AuditLine[]> {
  const lists = await Promise.all(
    [...running.values()].map((worker) =>
      withinSecond(questions.ask<readonly AuditLine[]>(worker, { kind: 'audit', limit })),
    ),
  );
  return lists
    .flatMap((lines) => lines ?? [])
    .toSorted((one, other) => (one.time < other.time ? 1 : one.time > other.time ? -1 : 0))
    .slice(0, limit);
}

function restartLater(
  supervision: Supervision,
  worker: number,
  delayMs: number,
  cause: string | number | null,
): void {
  WORKER_DEATHS.add();
  supervision.log.error({ worker, cause, delayMs }, 'a worker died; another takes its place');
  const nextDelayMs = Math.min(delayMs * 2, 10_000);
  const timer = setTimeout(() => {
    supervision.timers.delete(timer);
    if (supervision.isEnding) return;
    startWorker(supervision, worker, nextDelayMs).catch((error: unknown) => {
      if (!supervision.isEnding) restartLater(supervision, worker, nextDelayMs, String(error));
    });
  }, delayMs);
  supervision.timers.add(timer);
}

async function endWorkers(supervision: Supervision): Promise<void> {
  supervision.isEnding = true;
  for (const timer of supervision.timers) clearTimeout(timer);
  const children = [...supervision.running.values()];
  for (const child of children) tellToDrain(child);
  // Longer than the workers' own drain, because they also close their stores.
  const killTimer = setTimeout(() => {
    for (const child of children) child.kill('SIGKILL');
  }, 14_000);
  await Promise.all(children.map((child) => child.exited));
  clearTimeout(killTimer);
}

function tellAll({ running }: Supervision, message: ToWorker): void {
  for (const child of running.values()) {
    try {
      child.send(message);
    } catch {
      // A worker that has ended needs to be told nothing.
    }
  }
}

/** Ignores a worker that has ended already. */
function tellToDrain(child: Subprocess): void {
  try {
    child.send({ kind: 'drain' } satisfies ToWorker);
  } catch {
    child.kill('SIGTERM');
  }
}

/** Sums the metrics of workers. The last known counts of a dead worker stay in the sum. */
export class WorkerMetrics {
  readonly #questions: Questions<Subprocess>;
  /** with what each counted when it last answered */
  readonly #workers = new Map<Subprocess, MetricsSnapshot>();
  #ended: MetricsSnapshot = {};
  #reading: Promise<MetricsSnapshot> | undefined;

  constructor(questions: Questions<Subprocess>) {
    this.#questions = questions;
  }

  add(worker: Subprocess): void {
    this.#workers.set(worker, {});
  }

  remove(worker: Subprocess): void {
    const last = this.#workers.get(worker);
    if (last === undefined) return;
    this.#workers.delete(worker);
    const definitions = METRICS.definitions();
    this.#ended = mergeSnapshots(definitions, [this.#ended, withoutGauges(definitions, last)]);
  }

  /** Concurrent scrapes share one reading. */
  read(): Promise<MetricsSnapshot> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<MetricsSnapshot> {
    await Promise.all([...this.#workers.keys()].map((worker) => withinSecond(this.#ask(worker))));
    // A busy worker counts with its last known values.
    const snapshots = this.#workers.values();
    return mergeSnapshots(METRICS.definitions(), [METRICS.snapshot(), this.#ended, ...snapshots]);
  }
  /** An answer that comes late counts for the next reading. */
  async #ask(worker: Subprocess): Promise<void> {
    const snapshot = await this.#questions.ask<MetricsSnapshot>(worker, { kind: 'metrics' });
    if (snapshot !== undefined && this.#workers.has(worker)) this.#workers.set(worker, snapshot);
  }
}
