/** Sums what workers count. What a worker had counted when it was last asked stays in the sum after its death. */
import type { Subprocess } from 'bun';
import { mergeSnapshots, withoutGauges } from '../metrics/merge.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS } from '../metrics/server-metrics.ts';
import { WorkerAnswers } from './worker-answers.ts';

export class WorkerMetrics {
  readonly #answers = new WorkerAnswers<MetricsSnapshot>();
  /** with what each counted when it last answered */
  readonly #workers = new Map<Subprocess, MetricsSnapshot>();
  #ended: MetricsSnapshot = {};
  #reading: Promise<MetricsSnapshot> | undefined;

  add(worker: Subprocess): void {
    this.#workers.set(worker, {});
  }

  note(worker: Subprocess, snapshot: MetricsSnapshot): void {
    if (!this.#workers.has(worker)) return;
    this.#workers.set(worker, snapshot);
    this.#answers.note(worker, snapshot);
  }

  remove(worker: Subprocess): void {
    const last = this.#workers.get(worker);
    if (last === undefined) return;
    this.#workers.delete(worker);
    const definitions = METRICS.definitions();
    this.#ended = mergeSnapshots(definitions, [this.#ended, withoutGauges(definitions, last)]);
    this.#answers.drop(worker);
  }

  /** Scrapes at the same time share one reading. */
  read(): Promise<MetricsSnapshot> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<MetricsSnapshot> {
    await this.#answers.ask(this.#workers.keys(), { kind: 'read-metrics' });
    // A worker that is busy for longer is counted as it was when it last answered.
    const snapshots = this.#workers.values();
    return mergeSnapshots(METRICS.definitions(), [METRICS.snapshot(), this.#ended, ...snapshots]);
  }
}
