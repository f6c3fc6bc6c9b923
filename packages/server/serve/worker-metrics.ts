/** Sums the metrics of workers. The last known counts of a dead worker stay in the sum. */
import type { Subprocess } from 'bun';
import { mergeSnapshots, withoutGauges } from '../metrics/merge.ts';
import type { MetricsSnapshot } from '../metrics/registry.ts';
import { METRICS } from '../metrics/server-metrics.ts';
import { type Questions, withinSecond } from './questions.ts';

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
