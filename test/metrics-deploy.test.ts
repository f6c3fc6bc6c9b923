/** The metrics that deploy/ names, against a real scrape of a real server. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeNode } from './support/canonical-node.ts';
import { ensurePromtool, runPromtool } from './support/promtool.ts';
import { type RunningServer, startFreshServer } from './support/running-server.ts';
import { ROOT, readPrinted } from './support/server-process.ts';
import { makeTempFolder } from './support/temp-folder.ts';
import { until } from './support/until.ts';

const DEPLOY = join(ROOT, 'deploy');
const ALERTS = join(DEPLOY, 'prometheus', 'alerts.yaml');
/** Labels that Prometheus adds to what it scrapes. */
const ADDED_LABELS = ['job', 'instance', 'le'];
/** The counts of one request each, on any worker. */
const COUNTED = [
  /^holdfast_requests_total\{operation="upload",status="200",app="app"\} 1$/m,
  /^holdfast_request_duration_seconds_count\{operation="readMetadata"\} 1$/m,
];

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

let running: RunningServer;
let text: string;
let openMetrics: Response;

beforeAll(async () => {
  await ensurePromtool();
  running = await startFreshServer('metrics', {
    arguments: ['--operator-listen', '127.0.0.1:0', '--workers', '2'],
  });
  const client = running.client();
  const node = makeNode('measured');
  await client.store(node);
  await client.metadata(node.hash);
  const operators = await readPrinted(running.server, /^operators: (\S+)\n/m);
  // A worker that is busy for a second is left out of a scrape.
  await until(async () => {
    text = await (await fetch(`${operators}/metrics`)).text();
    return /^holdfast_workers 2$/m.test(text) && COUNTED.every((sample) => sample.test(text));
  });
  openMetrics = await fetch(`${operators}/metrics`, { headers: { accept: 'application/openmetrics-text' } });
});
afterAll(() => running.remove());

/** Metric → its labels in this scrape. */
function readScrape(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const [, name = ''] of text.matchAll(/^# TYPE (\S+)/gm)) found.set(name, new Set());
  for (const [, sample = '', labels = ''] of text.matchAll(/^(\w+)(?:\{(.*)\})? \S+$/gm)) {
    const name = found.has(sample) ? sample : sample.replace(/_(?:bucket|sum|count)$/, '');
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) found.get(name)?.add(label);
  }
  return found;
}

const dashboard = (): { panels: readonly Panel[] } =>
  JSON.parse(readFileSync(join(DEPLOY, 'grafana', 'holdfast.json'), 'utf8'));
const panelExpressions = (): string[] =>
  dashboard().panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
const alertExpressions = (): string[] => {
  const { groups } = Bun.YAML.parse(readFileSync(ALERTS, 'utf8')) as {
    groups: { rules: { expr: string }[] }[];
  };
  return groups.flatMap(({ rules }) => rules.map(({ expr }) => expr));
};

const METRIC = /\b((?:holdfast|process)_\w+?)(?:_bucket|_sum|_count)?\b(?=[{[\s)>]|$)/g;
const namesIn = (expression: string): string[] =>
  [...expression.matchAll(METRIC)].map(([, name = '']) => name);

test('promtool finds no fault in a scrape', () => {
  const { exitCode, stdout, stderr } = runPromtool(['check', 'metrics'], text);
  expect(`${stdout}${stderr}`).toBe('');
  expect(exitCode).toBe(0);
});

test('documented names exist, workers are summed, and OpenMetrics is given if asked for', async () => {
  for (const sample of COUNTED) expect(text).toMatch(sample);
  expect(text).toMatch(/^holdfast_workers 2$/m);
  expect(text).toMatch(/^holdfast_build_info\{version="[^"]+",bun="[^"]+"\} 1$/m);
  expect(text).toMatch(/^holdfast_data_free_bytes [1-9]/m);
  expect(text).toMatch(/^holdfast_engine_up\{engine="sqlite"\} 1$/m);
  for (const name of ['rotten_nodes', 'sent_bytes_total', 'gc_last_success_timestamp_seconds']) {
    expect(text).toMatch(new RegExp(`^holdfast_${name} \\d`, 'm'));
  }
  expect(openMetrics.headers.get('content-type')).toStartWith('application/openmetrics-text');
  expect(await openMetrics.text()).toEndWith('# EOF\n');
});

test('every metric has a panel on the dashboard', () => {
  const shown = new Set(panelExpressions().flatMap(namesIn));
  expect([...readScrape().keys()].filter((name) => !shown.has(name))).toEqual([]);
});

test('every expression names metrics and labels that a scrape has', () => {
  const scraped = readScrape();
  const documented = readFileSync(join(ROOT, 'docs', 'metrics.md'), 'utf8');
  for (const expression of [...panelExpressions(), ...alertExpressions()]) {
    const names = namesIn(expression);
    if (!/^up\{/.test(expression)) expect(names.length).toBeGreaterThan(0);
    const labels = new Set(ADDED_LABELS);
    for (const name of names) {
      expect([name, scraped.has(name)]).toEqual([name, true]);
      for (const label of scraped.get(name) ?? []) labels.add(label);
      // A metric without samples yet: its labels are those of the documentation.
      const row = new RegExp(`^\\| \`${name}\` \\|[^|]*\\|([^|]*)\\|`, 'm').exec(documented)?.[1] ?? '';
      for (const [, label = ''] of row.matchAll(/`(\w+)`/g)) labels.add(label);
    }
    const used = [
      ...[...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(/,\s*/)),
      ...[...expression.matchAll(/(\w+)=~?"/g)].map(([, label = '']) => label),
    ];
    expect({ expression, missing: used.filter((label) => !labels.has(label)) }).toEqual({
      expression,
      missing: [],
    });
  }
});

test('promtool accepts the alert rules, each fires when it should, and the expressions of the panels', () => {
  expect(runPromtool(['check', 'rules', ALERTS])).toMatchObject({ exitCode: 0 });
  const tests = ['alerts-test.yaml', 'alerts-slow-test.yaml'].map((name) => join(DEPLOY, 'prometheus', name));
  expect(runPromtool(['test', 'rules', ...tests])).toMatchObject({ exitCode: 0 });
  const tested = tests.map((path) => readFileSync(path, 'utf8')).join('');
  for (const [, name] of readFileSync(ALERTS, 'utf8').matchAll(/alert: (\w+)/g)) {
    for (const value of [0, 1]) {
      expect(tested).toMatch(new RegExp(`alertname="${name}".*\\n.*\\n.*value: ${value} `));
    }
  }
  const folder = makeTempFolder('panels');
  const path = join(folder.path, 'panels.yaml');
  const rules = panelExpressions().map((expr, index) => ({
    record: `panel:${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'),
  }));
  writeFileSync(path, JSON.stringify({ groups: [{ name: 'panels', rules }] }));
  expect(runPromtool(['check', 'rules', path])).toMatchObject({ exitCode: 0 });
  folder.remove();
});
