/** Parses `/metrics`, in the text format of Prometheus, as far as the console shows it. */

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export type Scrape = ReadonlyMap<string, readonly Sample[]>;

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Scrape {
  const scrape = new Map<string, Sample[]>();
  for (const line of text.split('\n')) {
    const [, name, labels = '', value = ''] = LINE.exec(line) ?? [];
    if (name === undefined) continue;
    const sample = { labels: parseLabels(labels), value: Number(value) };
    const there = scrape.get(name);
    if (there === undefined) scrape.set(name, [sample]);
    else there.push(sample);
  }
  return scrape;
}

function parseLabels(text: string): Record<string, string> {
  const pairs = Array.from(text.matchAll(LABEL), ([, name = '', value = '']) => [
    name,
    value.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped)),
  ]);
  return Object.fromEntries(pairs);
}

/** The sum of the samples that `isWanted`; 0 where there are none. */
export function sumOf(
  scrape: Scrape,
  name: string,
  isWanted: (sample: Sample) => boolean = () => true,
): number {
  return (scrape.get(name) ?? []).filter(isWanted).reduce((sum, { value }) => sum + value, 0);
}

/** undefined: the metric has no sample. */
export function gaugeOf(scrape: Scrape, name: string): number | undefined {
  return scrape.get(name)?.[0]?.value;
}
