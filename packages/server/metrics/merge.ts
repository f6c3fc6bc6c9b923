/** The snapshots of several processes as one. */
import type { SampleValue } from './metric.ts';
import type { MetricDefinition, MetricsSnapshot, Samples } from './registry.ts';

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
