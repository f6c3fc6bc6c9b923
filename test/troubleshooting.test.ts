/** The log lines that docs/troubleshooting.md quotes are those the server writes. */
import { expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './support/server-process.ts';

const SOURCES = new Bun.Glob('packages/server/**/*.ts');

test('each line of the log that is quoted is one that the server writes', () => {
  const text = readFileSync(join(ROOT, 'docs', 'troubleshooting.md'), 'utf8');
  const quoted = [...text.matchAll(/^\| `([^`]+)` in the log \|/gm)].map(([, line]) => line as string);
  expect(quoted.length).toBeGreaterThan(0);
  const sources = [...SOURCES.scanSync(ROOT)]
    .filter((path) => !path.endsWith('.test.ts'))
    .map((path) => readFileSync(join(ROOT, path), 'utf8'));
  const unknown = quoted.filter((line) => !sources.some((source) => source.includes(line)));
  expect(unknown).toEqual([]);
});
