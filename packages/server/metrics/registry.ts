/** All metrics of a process, in display order. */
import {
  Counter,
  Counters,
  type Family,
  Gauge,
  type GaugeMerge,
  Gauges,
  Histogram,
  Histograms,
  type MetricType,
  type SampleValue,
  SECONDS_BUCKETS,
} from './metric.ts';

export interface MetricDefinition {
  readonly name: string;
  readonly type: MetricType;
  /** one sentence, without a full stop */
  readonly help: string;
  readonly labels: readonly string[];
  readonly merge: GaugeMerge;
  /** of a histogram */
  readonly bounds: readonly number[];
}

interface Metric {
  readonly definition: MetricDefinition;
  readonly samples: () => Iterable<readonly [labels: string, value: SampleValue]>;
}

/** By name of a metric, then by rendered labels. Plain data, so that a process can send it to another. */
export type MetricsSnapshot = Readonly<Record<string, Samples>>;

/** By rendered labels. No plain objects: thousands of names in one would make each a name for the whole process. */
export type Samples = ReadonlyMap<string, SampleValue>;

interface Options {
  readonly merge?: GaugeMerge;
  readonly bounds?: readonly number[];
}

export class MetricRegistry {
  readonly #metrics = new Map<string, Metric>();
  readonly #readers = new Set<() => void>();

  counter(name: string, help: string): Counter {
    return this.#addSingle(name, 'counter', help, new Counter());
  }

  counters<Name extends string>(name: string, help: string, labels: readonly Name[]): Counters<Name> {
    return this.#addFamily(name, 'counter', help, labels, new Counters(labels, () => new Counter()));
  }

  gauge(name: string, help: string, options: Options = {}): Gauge {
    return this.#addSingle(name, 'gauge', help, new Gauge(), options);
  }

  gauges<Name extends string>(
    name: string,
    help: string,
    labels: readonly Name[],
    options: Options = {},
  ): Gauges<Name> {
    return this.#addFamily(name, 'gauge', help, labels, new Gauges(labels, () => new Gauge()), options);
  }

  histogram(name: string, help: string, options: Options = {}): Histogram {
    const histogram = new Histogram(options.bounds ?? SECONDS_BUCKETS);
    return this.#addSingle(name, 'histogram', help, histogram, options);
  }

  histograms<Name extends string>(
    name: string,
    help: string,
    labels: readonly Name[],
    options: Options = {},
  ): Histograms<Name> {
    const { bounds = SECONDS_BUCKETS } = options;
    const family = new Histograms(labels, () => new Histogram(bounds));
    return this.#addFamily(name, 'histogram', help, labels, family, options);
  }

  /** Runs `read`, which sets gauges, before each snapshot. Returns a function that stops it; call it on close. */
  readBefore(read: () => void): () => void {
    this.#readers.add(read);
    return () => void this.#readers.delete(read);
  }

  definitions(): readonly MetricDefinition[] {
    return [...this.#metrics.values()].map(({ definition }) => definition);
  }

  snapshot(): MetricsSnapshot {
    for (const read of this.#readers) read();
    const snapshot: Record<string, Samples> = {};
    for (const [name, { samples }] of this.#metrics) snapshot[name] = new Map(samples());
    return snapshot;
  }

  #addSingle<Only extends Counter | Gauge | Histogram>(
    name: string,
    type: MetricType,
    help: string,
    only: Only,
    options: Options = {},
  ): Only {
    this.#add(name, type, help, [], options, () => [['', only.read()]]);
    return only;
  }

  #addFamily<Made extends Family<Counter | Gauge | Histogram, Name>, Name extends string>(
    name: string,
    type: MetricType,
    help: string,
    labels: readonly Name[],
    family: Made,
    options: Options = {},
  ): Made {
    this.#add(name, type, help, labels, options, () => family.samples());
    return family;
  }

  #add(
    name: string,
    type: MetricType,
    help: string,
    labels: readonly string[],
    { merge = 'sum', bounds = SECONDS_BUCKETS }: Options,
    samples: Metric['samples'],
  ): void {
    if (this.#metrics.has(name)) throw new Error(`the metric ${name} exists already`);
    this.#metrics.set(name, { definition: { name, type, help, labels, merge, bounds }, samples });
  }
}

const NONE: Samples = new Map();

/** Counters and histograms are summed; a gauge by its rule. */
export function mergeSnapshots(
  definitions: readonly MetricDefinition[],
  snapshots: readonly MetricsSnapshot[],
): MetricsSnapshot {
  const merged: Record<string, Samples> = {};
  for (const definition of definitions) {
    const [first, ...others] = snapshots.flatMap((snapshot) => snapshot[definition.name] ?? []);
    const samples = new Map(first);
    for (const other of others) {
      for (const [labels, value] of other) {
        const before = samples.get(labels);
        samples.set(labels, before === undefined ? value : mergeValues(definition, before, value));
      }
    }
    merged[definition.name] = samples;
  }
  return merged;
}

/** The counts of a process that has ended. Its gauges are left out, because they describe a state that no longer exists. */
export function withoutGauges(
  definitions: readonly MetricDefinition[],
  snapshot: MetricsSnapshot,
): MetricsSnapshot {
  const kept = definitions.filter(({ type }) => type !== 'gauge');
  return Object.fromEntries(kept.map(({ name }) => [name, snapshot[name] ?? NONE]));
}

function mergeValues({ type, merge }: MetricDefinition, one: SampleValue, other: SampleValue): SampleValue {
  if (typeof one !== 'number' || typeof other !== 'number') {
    const counts = typeof other === 'number' ? [] : other;
    return typeof one === 'number' ? other : one.map((count, index) => count + (counts[index] ?? 0));
  }
  if (type !== 'gauge' || merge === 'sum') return one + other;
  return merge === 'max' ? Math.max(one, other) : Math.min(one, other);
}
