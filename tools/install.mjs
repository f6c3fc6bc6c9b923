#!/usr/bin/env node
// Installs what is missing, and only then: `npm start`, `npm test` and `bin/holdfast` call it on a fresh checkout, where
// nothing but Node and npm may be expected. With `--serving` it leaves out what only tests and builds need: two thirds. Plain JavaScript, because it runs before there is anything to run TypeScript.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bun = join(root, 'node_modules', '.bin', 'bun');

/** Everything the lockfile asks of this platform is there, in that very version; for serving, without what is for development. */
function isInstalled(isForServing) {
  const installedPath = join(root, 'node_modules', '.package-lock.json');
  if (!existsSync(installedPath) || !existsSync(bun)) return false;
  const wanted = readPackages(join(root, 'package-lock.json'));
  const installed = readPackages(installedPath);
  return Object.entries(wanted).every(([path, entry]) => {
    if (!path.startsWith('node_modules/')) return true;
    const found = installed[path];
    const isLeftOut = isForServing && (entry.dev === true || entry.devOptional === true);
    if (found === undefined) return isLeftOut || entry.optional === true || entry.peer === true;
    return found.version === entry.version && found.integrity === entry.integrity;
  });
}

function readPackages(path) {
  return JSON.parse(readFileSync(path, 'utf8')).packages ?? {};
}

function run(command, args) {
  // stdout belongs to the caller; progress and complaints go to stderr.
  const result = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', 2, 2],
    timeout: 10 * 60 * 1000,
  });
  return result.status === 0;
}

function bunRuns() {
  return existsSync(bun) && spawnSync(bun, ['--version'], { stdio: 'ignore' }).status === 0;
}

export function ensureInstalled({ isForServing = false } = {}) {
  if (!isInstalled(isForServing)) {
    console.error('holdfast: installing dependencies (npm ci), once');
    const omitted = isForServing ? ['--omit=dev'] : [];
    if (!run('npm', ['ci', '--no-audit', '--no-fund', ...omitted])) {
      throw new Error(
        `npm ci failed in ${root}; read its output above, mend the cause and run the command again`,
      );
    }
  }
  // If npm was told to run no install scripts, bun is still a placeholder; its own script puts the binary in place.
  if (!bunRuns()) run(process.execPath, [join(root, 'node_modules', 'bun', 'install.js')]);
  if (!bunRuns()) {
    throw new Error(
      `the bun binary in ${root} does not run on this machine; see https://bun.sh/docs/installation`,
    );
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    ensureInstalled({ isForServing: process.argv.includes('--serving') });
  } catch (error) {
    console.error(`holdfast: ${error.message}`);
    process.exit(1);
  }
}
