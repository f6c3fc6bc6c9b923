/** The sources keep the rooms, sizes and names of docs/design.md and docs/style.md. */
import { describe, expect, test } from 'bun:test';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  FILE_LINES_MAX,
  FUNCTION_LINES_MAX,
  findBrokenCitations,
  findBrokenLinks,
  findImports,
  findViolations,
  type SourceFile,
} from './architecture-rules.ts';

const ROOT = join(import.meta.dir, '..');

/** Tracked files and new ones that are not ignored: what a commit would hold. */
function listFiles(): string[] {
  const output = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
  });
  return output
    .toString()
    .split('\0')
    .filter((path) => path !== '' && existsSync(join(ROOT, path)));
}

function readFiles(paths: readonly string[]): SourceFile[] {
  return paths.map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }));
}

describe('architecture', () => {
  const paths = listFiles();
  const sources = readFiles(paths.filter((path) => /\.(?:ts|tsx|mjs)$/.test(path)));
  const pages = readFiles(paths.filter((path) => path.endsWith('.md')));

  test('every source keeps the house rules', () => {
    expect(sources.length).toBeGreaterThan(50);
    expect(findViolations(sources)).toEqual([]);
  }, 300_000);

  test('every link of the documentation resolves', () => {
    const exists = (path: string): boolean => existsSync(join(ROOT, path));
    expect(findBrokenLinks(pages, exists)).toEqual([]);
  });

  test('documentation stays short', () => {
    const words = (chosen: (path: string) => boolean): number =>
      pages.filter(({ path }) => chosen(path)).flatMap(({ text }) => text.match(/\S+/g) ?? []).length;
    expect(words((path) => path === 'docs/design.md')).toBeLessThanOrEqual(6_000);
    expect(words((path) => path.startsWith('docs/'))).toBeLessThanOrEqual(38_000);
  });

  test('named numbers stay few', () => {
    const isCounted = (path: string): boolean =>
      /^(?:packages|tools)\/.*(?<!\.test)\.ts$/.test(path) && !/^packages\/conformance\/|\/test\//.test(path);
    const named = sources
      .filter(({ path }) => isCounted(path))
      .flatMap(({ text }) => text.match(/^(?:export )?const [A-Z][A-Z0-9_]+ = [0-9]/gm) ?? []);
    expect(named.length).toBeLessThan(400);
  });

  test('every heading that a comment cites is there', () => {
    expect(findBrokenCitations(sources, pages)).toEqual([]);
  });

  test('the linter holds the same limits', () => {
    const { linter } = JSON.parse(readFileSync(join(ROOT, 'biome.json'), 'utf8'));
    const rule = linter.rules.complexity.noExcessiveLinesPerFunction;
    expect(rule).toEqual({ level: 'error', options: { maxLines: FUNCTION_LINES_MAX, skipBlankLines: true } });
  });
});

type Planted = readonly [name: string, path: string, text: string, expected: RegExp];

function plantInTree(room: string, target: string, expected: RegExp): Planted {
  const text = `import { b } from '${target}';`;
  return [`tree/${room} → ${target}`, `packages/client/tree/${room}/a.ts`, text, expected];
}

describe('planted violations are found', () => {
  const lines = (count: number): string => 'x();\n'.repeat(count);
  const planted: readonly Planted[] = [
    ['core → package', 'packages/server/core/a.ts', `import { z } from 'zod';`, /may not import 'zod'/],
    ['core → jose', 'packages/server/core/a.ts', `import { z } from 'jose';`, /may not import 'jose'/],
    ['core → node', 'packages/server/core/a.ts', `import { z } from 'node:fs';`, /may not import 'node:fs'/],
    ['core → http', 'packages/server/core/a.ts', `import { z } from '../http/b.ts';`, /may not import/],
    [
      'core → auth, type only',
      'packages/server/core/a.ts',
      `import type { Z } from '../auth/b.ts';`,
      /may not import/,
    ],
    [
      'core → engine by import()',
      'packages/server/core/a.ts',
      `const z: import('../engine/sqlite/b.ts').Z = 1;`,
      /may not/,
    ],
    ['core → clock', 'packages/server/core/a.ts', 'const now = Date.now();', /uses Date\.now/],
    ['core → randomness', 'packages/server/core/a.ts', 'const now = Math.random();', /uses Math\.random/],
    [
      'http → engine',
      'packages/server/http/a.ts',
      `import { z } from '../engine/sqlite/b.ts';`,
      /may not import/,
    ],
    [
      'engine → http',
      'packages/server/engine/sqlite/a.ts',
      `import { z } from '../../http/b.ts';`,
      /may not/,
    ],
    ['engine → engine', 'packages/server/engine/sqlite/a.ts', `import { z } from '../disk/b.ts';`, /may not/],
    [
      'bytes → rows',
      'packages/server/engine/s3/a.ts',
      `import { z } from '../postgres/b.ts';`,
      /nothing of rows/,
    ],
    [
      'rows → bytes',
      'packages/server/engine/postgres/a.ts',
      `import { z } from '../s3/b.ts';`,
      /nothing of where the bytes are/,
    ],
    [
      'deployment → serve, type only',
      'packages/server/deployment/a.ts',
      `import type { z } from '../serve/config.ts';`,
      /a floor above/,
    ],
    ['log → serve', 'packages/server/log.ts', `import type { z } from './serve/config.ts';`, /a floor above/],
    ['model → lease', 'packages/server/core/model.ts', `import { z } from './lease/z.ts';`, /a floor above/],
    [
      'lease → packs, type only',
      'packages/server/core/lease/a.ts',
      `import type { z } from '../packs/z.ts';`,
      /a floor above/,
    ],
    [
      'what engines share → an engine',
      'packages/server/engine/address.ts',
      `import { z } from './sqlite/rows.ts';`,
      /a floor above/,
    ],
    ['auth → http', 'packages/server/auth/a.ts', `export { z } from '../http/b.ts';`, /may not import/],
    [
      'main → engine',
      'packages/server/serve/main.ts',
      `import { z } from '../engine/sqlite/b.ts';`,
      /only .* concrete/,
    ],
    [
      'protocol → node',
      'packages/protocol/a.ts',
      `import { z } from 'node:crypto';`,
      /may not import 'node:crypto'/,
    ],
    ['protocol → package', 'packages/protocol/a.ts', `import 'ajv';`, /may not import 'ajv'/],
    ['protocol → Bun', 'packages/protocol/a.ts', 'const z = Bun.hash(1);', /uses Bun/],
    ['client → server', 'packages/client/a.ts', `import { z } from '@holdfast/server';`, /may not import/],
    ['client → Buffer', 'packages/client/a.ts', 'const z = Buffer.from(y);', /uses Buffer/],
    [
      'client → node',
      'packages/client/a.ts',
      `const z = await import('node:fs');`,
      /may not import 'node:fs'/,
    ],
    plantInTree('format', '../../client.ts', /layouts, cuts and their rules alone/),
    plantInTree('build', '../read/open-tree.ts', /building is pure/),
    plantInTree('read', '../build/builders.ts', /reading knows the format/),
    plantInTree('jobs', '../walk/walk-tree.ts', /knows none of them/),
    plantInTree('walk', '../pull/pull-tree.ts', /neither builds, pushes nor pulls/),
    plantInTree('push', '../pull/pull-tree.ts', /neither reads nor pulls/),
    plantInTree('pull', '../push/push-tree.ts', /neither builds nor pushes/),
    plantInTree('push', '../../bundle/create-bundle.ts', /neither reads nor pulls/),
    ['bundle → tree', 'packages/client/bundle/b.ts', `import { b } from '../tree/push.ts';`, /know no trees/],
    ['SDK root → tree', 'packages/client/client.ts', `import { b } from './tree/push.ts';`, /may not import/],
    ['SDK root → its door', 'packages/client/client.ts', `import { b } from './index.ts';`, /may not import/],
    [
      'files → server',
      'packages/files/a.ts',
      `import { s } from '@holdfast/server';`,
      /gives the SDK its disk/,
    ],
    ['files → SQLite', 'packages/files/a.ts', `import { Database } from 'bun:sqlite';`, /on Node too/],
    ['files → push', 'packages/files/a.ts', `import { s } from './push/b.ts';`, /on Node too/],
    ['push → state', 'packages/files/push/a.ts', `import { s } from '../state/b.ts';`, /through a port/],
    [
      'push → pull of files',
      'packages/files/push/a.ts',
      `import { s } from '../pull/b.ts';`,
      /through a port/,
    ],
    [
      'pull → push of files',
      'packages/files/pull/a.ts',
      `import { s } from '../push/b.ts';`,
      /nothing of pushes/,
    ],
    [
      'pull → its thread',
      'packages/files/pull/a.ts',
      `import { s } from '../writer/b.ts';`,
      /through a port/,
    ],
    ['thread → push', 'packages/files/writer/a.ts', `import { s } from '../push/b.ts';`, /a port of pull/],
    ['state → pull', 'packages/files/state/a.ts', `import { s } from '../pull/b.ts';`, /a port of push/],
    ['SDK on Node → state', 'packages/files/sdk.ts', `import { s } from './state/b.ts';`, /never the state/],
    ['files → Bun', 'packages/files/a.ts', 'await Bun.sleep(1);', /uses Bun/],
    [
      'files → inside of the SDK',
      'packages/files/a.ts',
      `import { s } from '../client/tree/push.ts';`,
      /its door/,
    ],
    [
      'cli → inside of server',
      'packages/cli/a.ts',
      `import { z } from '../server/core/b.ts';`,
      /reaches into/,
    ],
    [
      'cli → deep name',
      'packages/cli/a.ts',
      `import { z } from '@holdfast/server/core/b.ts';`,
      /reaches into/,
    ],
    ['conformance → server', 'packages/conformance/a.ts', `import { z } from '@holdfast/server';`, /may not/],
    ['console → node', 'packages/console/page/a.tsx', `import { z } from 'node:fs';`, /runs in a browser/],
    ['console → Bun', 'packages/console/page/a.ts', 'Bun.hash(1);', /uses Bun/],
    [
      'first view → SDK',
      'packages/console/page/operator/a.tsx',
      `import { z } from '@holdfast/client';`,
      /without the SDK/,
    ],
    ['no extension', 'packages/cli/a.ts', `import { z } from './b';`, /needs its file extension/],
    ['default export', 'packages/cli/a.ts', 'export default 1;', /no default exports/],
    ['enum', 'packages/cli/a.ts', 'export enum A {}', /erasable/],
    ['hasher', 'packages/a.test.ts', `new Bun.${'CryptoHasher'}('sha256', key)`, /throws for a fault/],
    ['copy that may be a view', 'packages/cli/a.ts', 'const copy = bytes.slice();', /is a view/],
    [
      'workaround',
      'packages/server/runtime/a.ts',
      '/**\n * Why: x\n * Since: y\n * Goes when: z\n */\n',
      /headed by Without it: $/,
    ],
    ['camel case', 'packages/cli/someThing.ts', '', /kebab-case/],
    ['helper', 'packages/cli/test-helper.ts', '', /no Manager/],
    ['long file', 'packages/cli/a.ts', lines(FILE_LINES_MAX + 1), /401 lines/],
    ['long test file', 'packages/cli/a.test.ts', lines(FILE_LINES_MAX + 1), /401 lines/],
    [
      'long function',
      'packages/cli/a.ts',
      `function f() {\n${lines(FUNCTION_LINES_MAX - 1)}}\n`,
      /function of 71 lines/,
    ],
    [
      'long method',
      'packages/cli/a.ts',
      `class A {\n  f(): void {\n${lines(FUNCTION_LINES_MAX)}  }\n}\n`,
      /function of 72/,
    ],
  ];

  for (const [name, path, text, expected] of planted) {
    test(name, () => {
      const found = findViolations([{ path, text }]);
      expect(found.join('\n')).toMatch(expected);
    });
  }

  test('files that import each other, types alone', () => {
    const files = [
      { path: 'packages/cli/a.ts', text: `import { b } from './b.ts';` },
      { path: 'packages/cli/b.ts', text: `export * from './c/c.ts';` },
      { path: 'packages/cli/c/c.ts', text: `import type { A } from '../a.ts';` },
      { path: 'packages/cli/d.ts', text: `import { b } from './b.ts';\nimport './a.ts';` },
    ];
    expect(findViolations(files)).toEqual([
      'packages/cli/a.ts: imports itself: packages/cli/a.ts → packages/cli/b.ts → packages/cli/c/c.ts → packages/cli/a.ts',
    ]);
    expect(findViolations(files.filter(({ path }) => path !== 'packages/cli/b.ts'))).toEqual([]);
  });

  test('a source in order has none', () => {
    const text = [
      `import { a } from '@holdfast/protocol';`,
      `import type { B } from './b.ts';`,
      `// import { z } from 'zod';`,
      `/** import { z } from 'zod'; Date.now() */`,
      `function f() {`,
      lines(FUNCTION_LINES_MAX - 2),
      '}',
    ].join('\n');
    expect(findViolations([{ path: 'packages/server/core/a.ts', text }])).toEqual([]);
    expect(
      findViolations([
        {
          path: 'packages/server/deployment/open.ts',
          text: `import { z } from './engine/sqlite/z.ts';`,
        },
      ]),
    ).toEqual([]);
  });

  test('imports of every form are seen', () => {
    const text = `import a, {\n  b,\n} from 'one';\nexport * from 'two';\nimport 'three';\nawait import('four');\n`;
    expect(findImports(text).sort()).toEqual(['four', 'one', 'three', 'two']);
  });

  test('broken links and anchors are found', () => {
    const pages = [
      {
        path: 'README.md',
        text: 'See [a](docs/a.md#the-one), [b](docs/none.md), [c](docs/a.md#other), [d](https://x.y/z).',
      },
      {
        path: 'docs/a.md',
        text: '# The one\n`[x](nowhere)` and [up](../README.md)\n```\n[y](nowhere)\n```\n',
      },
    ];
    const exists = (path: string): boolean => pages.some((page) => page.path === path);
    expect(findBrokenLinks(pages, exists)).toEqual([
      'README.md: link to docs/none.md leads nowhere',
      'README.md: link to docs/a.md#other: no such heading',
    ]);
  });

  test('a comment that cites a heading there is not', () => {
    const page = 'docs/a.md';
    const pages = [{ path: page, text: '# A\n\n## `readIt`\n\n## Some part\n\n**Bold words.** Text\n' }];
    const text = `/**\n * (${page}, readIt; ${page}, Some\n * part; ${page}, Bold words; ${page}, Other)\n */`;
    expect(findBrokenCitations([{ path: 'a.ts', text }], pages)).toEqual([
      `a.ts: cites ${page}, Other: no such heading`,
    ]);
  });
});
