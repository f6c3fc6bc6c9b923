// `npm test -- --changed`: the test files that import what differs from the last commit, themselves or through others. A test that
// starts the command imports none of its sources: those run in the whole run.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { findTestFiles } from './test-files.mjs';

const IMPORT = /\b(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g;
const PACKAGE = /^@holdfast\/([a-z-]+)$/;

/** @returns {string[]} paths from `root` of what is changed or new, as git sees it */
export function findChangedFiles(root) {
  const git = (...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8' })
      .split('\0')
      .filter((path) => path !== '');
  const changed = git('diff', '--name-only', '-z', '--relative', 'HEAD');
  return [...changed, ...git('ls-files', '--others', '--exclude-standard', '-z')];
}

/** @returns {string[]} of the test files below `root`, those that import one of `changed` or are one */
export function findTestsOf(root, changed) {
  const wanted = new Set(changed);
  return findTestFiles(root).filter((file) => reach(root, file).some((path) => wanted.has(path)));
}

/** The file and all that it imports, paths from `root`. */
function reach(root, file) {
  const seen = new Set();
  const open = [file];
  while (open.length > 0) {
    const path = open.pop();
    if (seen.has(path) || !existsSync(join(root, path))) continue;
    seen.add(path);
    open.push(...importsOf(root, path));
  }
  return [...seen];
}

const known = new Map();

function importsOf(root, path) {
  const full = join(root, path);
  if (known.has(full)) return known.get(full);
  const specifiers = [...readFileSync(full, 'utf8').matchAll(IMPORT)].map(([, specifier]) => specifier);
  const paths = specifiers.flatMap((specifier) => {
    if (specifier.startsWith('.')) return [relative(root, join(dirname(full), specifier))];
    const name = PACKAGE.exec(specifier)?.[1];
    return name === undefined ? [] : [join('packages', name, 'index.ts')];
  });
  known.set(full, paths);
  return paths;
}
