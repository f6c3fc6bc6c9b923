/** Sums what workers count. What a worker had counted when it was last asked stays in the sum after its death. */
import type { Subprocess } from 'bun';
import { mergeSnapshots, withoutGauges } from '../metrics/merge.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS } from '../metrics/server-metrics.ts';
import type { ToWorker } from './worker-messages.ts';

/** A worker that is busy for longer is counted as it was when it last answered. */
const ANSWER_MS_MAX = 1000;

interface Known {
  last: MetricsSnapshot;
  /** settles the reading that waits for this worker */
  answered: (() => void) | undefined;
}

export class WorkerMetrics {
  readonly #workers = new Map<Subprocess, Known>();
  #ended: MetricsSnapshot = {};
  #reading: Promise<MetricsSnapshot> | undefined;

  add(worker: Subprocess): void {
    this.#workers.set(worker, { last: {}, answered: undefined });
  }

  note(worker: Subprocess, snapshot: MetricsSnapshot): void {
    const known = this.#workers.get(worker);
    if (known === undefined) return;
    known.last = snapshot;
    known.answered?.();
  }

  remove(worker: Subprocess): void {
    const known = this.#workers.get(worker);
    if (known === undefined) return;
    this.#workers.delete(worker);
    const definitions = METRICS.definitions();
    this.#ended = mergeSnapshots(definitions, [this.#ended, withoutGauges(definitions, known.last)]);
    known.answered?.();
  }

  /** Scrapes at the same time share one reading. */
  read(): Promise<MetricsSnapshot> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<MetricsSnapshot> {
    await Promise.all([...this.#workers].map(([worker, known]) => ask(worker, known)));
    const snapshots = [...this.#workers.values()].map(({ last }) => last);
    return mergeSnapshots(METRICS.definitions(), [METRICS.snapshot(), this.#ended, ...snapshots]);
  }
}

async function ask(worker: Subprocess, known: Known): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ANSWER_MS_MAX);
  known.answered = resolve;
  try {
    worker.send({ kind: 'read-metrics' } satisfies ToWorker);
    await promise;
  } catch {
    // The worker has ended; the supervisor learns of it by itself.
  } finally {
    clearTimeout(timer);
    known.answered = undefined;
  }
}
