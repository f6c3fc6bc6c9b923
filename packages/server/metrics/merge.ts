/** The snapshots of several processes as one. */
import type { SampleValue } from './metric.ts';
import type { MetricDefinition, MetricsSnapshot } from './registry.ts';

/** Counters and histograms are summed; a gauge by its rule. */
export function mergeSnapshots(
  definitions: readonly MetricDefinition[],
  snapshots: readonly MetricsSnapshot[],
): MetricsSnapshot {
  const merged: Record<string, Record<string, SampleValue>> = {};
  for (const definition of definitions) {
    const samples: Record<string, SampleValue> = {};
    for (const snapshot of snapshots) {
      for (const [labels, value] of Object.entries(snapshot[definition.name] ?? {})) {
        const before = samples[labels];
        samples[labels] = before === undefined ? value : mergeValues(definition, before, value);
      }
    }
    merged[definition.name] = samples;
  }
  return merged;
}

/** What stays of a process that has ended: what it counted. Its gauges spoke of what is no more. */
export function withoutGauges(
  definitions: readonly MetricDefinition[],
  snapshot: MetricsSnapshot,
): MetricsSnapshot {
  const kept = definitions.filter(({ type }) => type !== 'gauge');
  return Object.fromEntries(kept.map(({ name }) => [name, snapshot[name] ?? {}]));
}

function mergeValues({ type, merge }: MetricDefinition, one: SampleValue, other: SampleValue): SampleValue {
  if (typeof one !== 'number' || typeof other !== 'number') {
    const counts = typeof other === 'number' ? [] : other;
    return typeof one === 'number' ? other : one.map((count, index) => count + (counts[index] ?? 0));
  }
  if (type !== 'gauge' || merge === 'sum') return one + other;
  return merge === 'max' ? Math.max(one, other) : Math.min(one, other);
}
