/** Reading what a scrape says. */
import { expect, test } from 'bun:test';
import { gaugeOf, parseMetrics, sumOf } from './metrics-text.ts';

const TEXT = `# HELP a_total Things.
# TYPE a_total counter
a_total{app="x",status="200"} 3
a_total{app="say \\"hi\\", \\\\ {b} \\n",status="503"} 4 1700000000
b -1.5e3
c{le="+Inf"} 7
`;

test('samples come with their labels, whatever these hold', () => {
  const scrape = parseMetrics(TEXT);
  expect(scrape.get('a_total')).toEqual([
    { labels: { app: 'x', status: '200' }, value: 3 },
    { labels: { app: 'say "hi", \\ {b} \n', status: '503' }, value: 4 },
  ]);
  expect(gaugeOf(scrape, 'b')).toBe(-1500);
  expect(gaugeOf(scrape, 'none')).toBeUndefined();
});

test('samples are summed, all or some', () => {
  const scrape = parseMetrics(TEXT);
  expect(sumOf(scrape, 'a_total')).toBe(7);
  expect(sumOf(scrape, 'a_total', ({ labels }) => labels.status === '503')).toBe(4);
  expect(sumOf(scrape, 'none')).toBe(0);
});
