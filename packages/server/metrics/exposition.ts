/** Metrics as text for Prometheus: its own format 0.0.4, and OpenMetrics 1.0 for a scraper that asks for it. */
import type { SampleValue } from './metric.ts';
import type { MetricDefinition, MetricsSnapshot } from './registry.ts';

type ExpositionFormat = 'text' | 'openmetrics';

const CONTENT_TYPES: Readonly<Record<ExpositionFormat, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
};

export function renderScrape(
  accept: string | null,
  definitions: readonly MetricDefinition[],
  snapshot: MetricsSnapshot,
): { readonly contentType: string; readonly text: string } {
  const format = chooseFormat(accept);
  return { contentType: CONTENT_TYPES[format], text: renderMetrics(definitions, snapshot, format) };
}

/** Chooses the format by the `Accept` header: OpenMetrics only if it is named and preferred at least as much as plain text. */
function chooseFormat(accept: string | null): ExpositionFormat {
  let openMetrics = 0;
  let plain = 0;
  for (const range of (accept ?? '').toLowerCase().split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    const quality = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
    const weight = quality === undefined ? 1 : Number(quality) || 0;
    if (type === 'application/openmetrics-text') openMetrics = Math.max(openMetrics, weight);
    else if (['text/plain', 'text/*', '*/*'].includes(type)) plain = Math.max(plain, weight);
  }
  return openMetrics > 0 && openMetrics >= plain ? 'openmetrics' : 'text';
}

function renderMetrics(
  definitions: readonly MetricDefinition[],
  snapshot: MetricsSnapshot,
  format: ExpositionFormat,
): string {
  const parts: string[] = [];
  for (const definition of definitions) {
    const { name, type, help } = definition;
    const family = format === 'openmetrics' && type === 'counter' ? name.replace(/_total$/, '') : name;
    parts.push(`# HELP ${family} ${escapeHelp(help)}.\n# TYPE ${family} ${type}\n`);
    for (const [labels, value] of snapshot[name] ?? []) parts.push(renderSample(definition, labels, value));
  }
  if (format === 'openmetrics') parts.push('# EOF\n');
  return parts.join('');
}

function renderSample({ name, bounds }: MetricDefinition, labels: string, value: SampleValue): string {
  if (typeof value === 'number') return `${name}${inBraces(labels)} ${value}\n`;
  const prefix = labels === '' ? '' : `${labels},`;
  let text = '';
  let count = 0;
  for (const [index, bound] of bounds.entries()) {
    count += value[index] ?? 0;
    text += `${name}_bucket{${prefix}le="${formatBound(bound)}"} ${count}\n`;
  }
  count += value[bounds.length] ?? 0;
  text += `${name}_bucket{${prefix}le="+Inf"} ${count}\n`;
  text += `${name}_sum${inBraces(labels)} ${value[bounds.length + 1] ?? 0}\n`;
  return `${text}${name}_count${inBraces(labels)} ${count}\n`;
}

function inBraces(labels: string): string {
  return labels === '' ? '' : `{${labels}}`;
}

/** In OpenMetrics notation: `1.0`, not `1`. */
function formatBound(bound: number): string {
  return Number.isInteger(bound) ? `${bound}.0` : String(bound);
}

function escapeHelp(text: string): string {
  return text.replace(/\\/g, '\\\\').replace(/\n/g, '\\n');
}
