// `npm test -- --changed`: the test files that import what differs from the last commit, themselves or through others. A test that
// starts the command imports none of its sources: those run in the whole run.
import { execFileSync } from 'node:child_process';
import { importsAny } from './imports.mjs';
import { findTestFiles } from './test-files.mjs';

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
  return findTestFiles(root).filter((file) => importsAny(root, file, wanted));
}
