/** `npm test -- --changed`: which test files import what changed. */
import { expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findChangedFiles, findTestsOf } from '../tools/changed-tests.mjs';
import { makeTempFolder } from './support/temp-folder.ts';

test('a test file runs if it, or anything it imports, differs from the last commit', () => {
  const folder = makeTempFolder('changed-tests');
  try {
    const write = (path: string, text: string): void => {
      mkdirSync(dirname(join(folder.path, path)), { recursive: true });
      writeFileSync(join(folder.path, path), text);
    };
    const git = (...args: string[]): void => {
      const identity = ['-c', 'user.name=t', '-c', 'user.email=t@localhost'];
      expect(Bun.spawnSync(['git', ...identity, ...args], { cwd: folder.path }).exitCode).toBe(0);
    };
    write('packages/deep/index.ts', "export * from './inner.ts';");
    write('packages/deep/inner.ts', 'export const one = 1;');
    write('near.ts', "import { one } from '@holdfast/deep';");
    write('near.test.ts', "import './near.ts';");
    write('packages/deep/internal.ts', "export * from './index.ts';");
    write('inside.test.ts', "import type { one } from '@holdfast/deep/internal';");
    write('far.test.ts', "import './far.ts';");
    write('far.ts', '');
    git('init', '-q');
    git('add', '.');
    git('commit', '-qm', 'all');
    const find = (): string[] => findTestsOf(folder.path, findChangedFiles(folder.path)).sort();
    expect(find()).toEqual([]);
    write('packages/deep/inner.ts', 'export const one = 2;');
    expect(find()).toEqual(['inside.test.ts', 'near.test.ts']);
    write('new.test.ts', '');
    expect(find()).toEqual(['inside.test.ts', 'near.test.ts', 'new.test.ts']);
  } finally {
    folder.remove();
  }
});
