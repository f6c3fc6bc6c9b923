import { describe, expect, test } from 'bun:test';
import { renderScrape } from './exposition.ts';
import type { SampleValue } from './metric.ts';
import { watchProcess } from './process-metrics.ts';
import {
  MetricRegistry,
  type MetricsSnapshot,
  mergeSnapshots,
  type Samples,
  withoutGauges,
} from './registry.ts';
import * as serverMetrics from './server-metrics.ts';

const OPENMETRICS = 'application/openmetrics-text; version=1.0.0';

function render(registry: MetricRegistry, accept: string | null = null): string {
  return renderScrape(accept, registry.definitions(), registry.snapshot()).text;
}

describe('the text of a scrape', () => {
  test('has help, type and every value; labels and help are escaped', () => {
    const registry = new MetricRegistry();
    registry.counter('plain_total', 'Lines\nand a \\').add(3);
    registry.counters('told_total', 'By app', ['app']).add({ app: 'a"b\\c\nd' }, 2);
    registry.gauge('open', 'Open now').set(-1.5);
    expect(render(registry)).toBe(
      [
        '# HELP plain_total Lines\\nand a \\\\.',
        '# TYPE plain_total counter',
        'plain_total 3',
        '# HELP told_total By app.',
        '# TYPE told_total counter',
        'told_total{app="a\\"b\\\\c\\nd"} 2',
        '# HELP open Open now.',
        '# TYPE open gauge',
        'open -1.5',
        '',
      ].join('\n'),
    );
  });

  test('a histogram counts a value in its own bucket and all above it, bounds included', () => {
    const registry = new MetricRegistry();
    const wait = registry.histograms('wait_seconds', 'Waits', ['resource'], { bounds: [0.5, 1] });
    for (const seconds of [0.25, 0.5, 0.75, 8]) wait.observe({ resource: 'pool' }, seconds);
    expect(render(registry).split('\n').slice(2, 7)).toEqual([
      'wait_seconds_bucket{resource="pool",le="0.5"} 2',
      'wait_seconds_bucket{resource="pool",le="1.0"} 3',
      'wait_seconds_bucket{resource="pool",le="+Inf"} 4',
      'wait_seconds_sum{resource="pool"} 9.5',
      'wait_seconds_count{resource="pool"} 4',
    ]);
  });

  test('OpenMetrics names the family without _total and ends with EOF', () => {
    const registry = new MetricRegistry();
    registry.counter('plain_total', 'Lines').add(1);
    expect(render(registry, OPENMETRICS)).toBe(
      '# HELP plain Lines.\n# TYPE plain counter\nplain_total 1\n# EOF\n',
    );
  });

  test.each([
    [null, 'text/plain'],
    ['*/*', 'text/plain'],
    ['text/html', 'text/plain'],
    [`${OPENMETRICS};q=0.5,text/plain;q=0.3,*/*;q=0.1`, 'application/openmetrics-text'],
    [`${OPENMETRICS};q=0.2,text/plain;q=0.3`, 'text/plain'],
    [`${OPENMETRICS};q=0`, 'text/plain'],
    ['Application/OpenMetrics-Text', 'application/openmetrics-text'],
  ])('the header Accept %p is answered with %s', (accept, type) => {
    expect(renderScrape(accept, [], {}).contentType).toStartWith(type);
  });
});

describe('several processes', () => {
  const registry = new MetricRegistry();
  registry.counter('c_total', 'A counter');
  registry.gauge('sum', 'A sum');
  registry.gauge('max', 'A maximum', { merge: 'max' });
  registry.gauge('min', 'A minimum', { merge: 'min' });
  registry.histogram('h_seconds', 'A histogram', { bounds: [1] });
  const definitions = registry.definitions();
  const samples = (values: Record<string, SampleValue>): Samples => new Map(Object.entries(values));
  const one: MetricsSnapshot = {
    c_total: samples({ '': 1, 'app="x"': 4 }),
    sum: samples({ '': 1 }),
    max: samples({ '': 1 }),
    min: samples({ '': 1 }),
    h_seconds: samples({ '': [1, 2, 3.5] }),
  };
  const two: MetricsSnapshot = {
    c_total: samples({ '': 2, 'app="y"': 5 }),
    sum: samples({ '': 2 }),
    max: samples({ '': 2 }),
    min: samples({ '': 2 }),
    h_seconds: samples({ '': [10, 20, 30] }),
  };

  test('are summed, and gauges merged by their rule', () => {
    expect(mergeSnapshots(definitions, [one, two])).toEqual({
      c_total: samples({ '': 3, 'app="x"': 4, 'app="y"': 5 }),
      sum: samples({ '': 3 }),
      max: samples({ '': 2 }),
      min: samples({ '': 1 }),
      h_seconds: samples({ '': [11, 22, 33.5] }),
    });
  });

  test('keep what an ended process counted, and drop its gauges', () => {
    const merged = mergeSnapshots(definitions, [withoutGauges(definitions, one), two]);
    expect(merged.c_total).toEqual(samples({ '': 3, 'app="x"': 4, 'app="y"': 5 }));
    expect(merged.h_seconds).toEqual(samples({ '': [11, 22, 33.5] }));
    expect(merged.sum).toEqual(samples({ '': 2 }));
  });
});

describe('the metrics of the server', () => {
  test('stand from the start, with names as Prometheus wants them', () => {
    const { METRICS, ...constants } = serverMetrics;
    const stop = watchProcess();
    try {
      const definitions = METRICS.definitions();
      expect(definitions.length).toBeGreaterThanOrEqual(Object.keys(constants).length);
      for (const { name, type, help } of definitions) {
        expect(name).toMatch(/^(?:holdfast|process)_[a-z0-9_]+$/);
        expect(name.endsWith('_total')).toBe(type === 'counter');
        expect(help).toMatch(/^[A-Z].*[^.]$/);
      }
      const { text } = renderScrape(null, definitions, METRICS.snapshot());
      for (const { name, labels } of definitions) {
        if (labels.length === 0) expect(text).toMatch(new RegExp(`^${name}(?:_count)? `, 'm'));
      }
      expect(text).toMatch(/^process_resident_memory_bytes [1-9]/m);
      expect(text).toMatch(/^process_cpu_seconds_total 0*[.1-9]/m);
      expect(text).toMatch(/^process_open_fds [1-9]/m);
    } finally {
      stop();
    }
  });

  test('labels that callers choose take bounded memory', () => {
    const registry = new MetricRegistry();
    const family = registry.counters('many_total', 'Many', ['app']);
    for (let index = 0; index < 60_000; index += 1) family.add({ app: String(index) });
    const samples = registry.snapshot().many_total;
    expect(samples?.size).toBe(50_001);
    expect(samples?.get('app="other"')).toBe(10_000);
  });
});
