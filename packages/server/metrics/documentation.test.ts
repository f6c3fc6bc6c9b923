import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import './process-metrics.ts';
import { METRICS } from './server-metrics.ts';

const PAGE = join(import.meta.dir, '..', '..', '..', 'docs', 'metrics.md');

test('docs/metrics.md describes each metric in the words of the code', () => {
  const rows = [...readFileSync(PAGE, 'utf8').matchAll(/^\| `(?:holdfast|process)_.*$/gm)].map(
    ([row]) => row,
  );
  const expected = METRICS.definitions().map(({ name, type, labels, help }) => {
    const names = labels.map((label) => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${names} | ${help}. |`;
  });
  expect(rows).toEqual(expected);
});
