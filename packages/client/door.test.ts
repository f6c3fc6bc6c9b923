/** The doors of the SDK: the public one is a promise, so it is small and shown; the other names what somebody uses. */
import { describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Glob } from 'bun';

const ROOT = join(import.meta.dir, '../..');
const DOOR_NAMES_MAX = 80;

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** Values and types that the file exports by name. */
function listNames(path: string): string[] {
  const lists = read(path).matchAll(/^export (?:type )?\{([^}]*)\}/gm);
  return [...lists].flatMap(([, list = '']) => list.match(/\w+(?=\s*(?:,|$))/g) ?? []);
}

const find = (pattern: string): string[] => [...new Glob(pattern).scanSync({ cwd: ROOT })];

describe('the public door', () => {
  const names = listNames('packages/client/index.ts');

  test('has few names', () => {
    expect(names.length).toBeGreaterThan(40);
    expect(names.length).toBeLessThanOrEqual(DOOR_NAMES_MAX);
  });

  test('has none that no page shows', () => {
    const pages = ['packages/client/README.md', ...find('docs/*.md')].map(read);
    const code = pages.flatMap((text) => [
      ...(text.match(/^```js\n[\s\S]*?^```$/gm) ?? []),
      ...(text.replace(/^```[\s\S]*?^```$/gm, '').match(/`[^`\n]+`/g) ?? []),
    ]);
    const shown = new Set(code.flatMap((text) => text.match(/\w+/g) ?? []));
    expect(names.filter((name) => !shown.has(name))).toEqual([]);
  });
});

test('the door for our own packages has no name that none of them uses', () => {
  const files = find('{packages,test,bench,proof}/**/*.{ts,tsx,mjs}').filter(
    (path) => !path.includes('node_modules') && path !== 'packages/client/internal.ts',
  );
  const used = new Set(
    files.flatMap((path) =>
      [
        ...read(path).matchAll(/^import (?:type )?\{([^}]*)\} from '[^']*client\/internal(?:\.ts)?';/gm),
      ].flatMap(([, list = '']) => list.match(/\w+/g) ?? []),
    ),
  );
  const names = listNames('packages/client/internal.ts');
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name) => !used.has(name))).toEqual([]);
});
