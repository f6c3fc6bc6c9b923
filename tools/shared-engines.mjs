// The engines that test files share over one `npm test`: which files need which, and starting them once, when the first
// file that needs one comes up.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runShown, showErrors } from './shown-run.mjs';

/** A test file needs an engine when it imports this, itself or through others. */
const DOORS = new Map([
  [join('test', 'support', 'postgres-server.ts'), 'postgres'],
  [join('test', 'support', 'ceph-server.ts'), 'ceph'],
]);
const KEEPER = join('test', 'support', 'shared-engines.ts');
const INSTALL_CEPH = join('tools', 'install-ceph.mjs');
const INSTALL_TIMEOUT_MS = 30 * 60 * 1000;

/** @returns {string[]} the engines a test file (a path from `root`) needs */
export function findNeededEngines(root, file) {
  const seen = new Set();
  const open = [file];
  while (open.length > 0) {
    const path = open.pop();
    if (seen.has(path)) continue;
    seen.add(path);
    if (DOORS.has(path) || !existsSync(join(root, path))) continue;
    const text = readFileSync(join(root, path), 'utf8');
    for (const [, specifier] of text.matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]+\.ts)['"]/g)) {
      open.push(join(dirname(path), specifier));
    }
  }
  return [...DOORS].filter(([door]) => seen.has(door)).map(([, engine]) => engine);
}

export function makeSharedEngines(root, bun) {
  /** @type {Map<string, {child: import('node:child_process').ChildProcess, environment: Record<string, string>}>} */
  const running = new Map();

  async function start(engine) {
    if (engine === 'ceph') {
      const bounds = { cwd: root, timeoutMs: INSTALL_TIMEOUT_MS };
      const { ok, output } = await runShown(process.execPath, [join(root, INSTALL_CEPH)], bounds);
      if (!ok) throw new Error(`Ceph is not there and could not be installed:\n${output}`);
    }
    const child = spawn(bun, [join(root, KEEPER), engine], { cwd: root, stdio: ['pipe', 'pipe', 'pipe'] });
    const readErrors = showErrors(child);
    // A keeper that has ended is seen by the end of its output.
    child.stdin.on('error', () => {});
    const line = await readLine(child);
    if (line === undefined) throw new Error(`the shared ${engine} did not start:\n${readErrors()}`);
    running.set(engine, { child, environment: JSON.parse(line) });
  }

  return {
    /** The environment in which a file that needs `engines` runs; starts what does not run yet. */
    async provide(engines) {
      for (const engine of engines) {
        if (running.get(engine)?.child.exitCode === null) continue;
        const startedAt = Date.now();
        await start(engine);
        console.log(`== shared ${engine} runs after ${Date.now() - startedAt} ms`);
      }
      return Object.assign({}, ...engines.map((engine) => running.get(engine).environment));
    },
    async end() {
      await Promise.all(
        [...running.values()].map(({ child }) => {
          const closed = new Promise((resolve) => child.once('close', resolve));
          child.stdin.end();
          return child.exitCode === null ? closed : undefined;
        }),
      );
      running.clear();
    },
  };
}

/** The first line it prints; undefined when it ends before that. */
function readLine(child) {
  return new Promise((resolve) => {
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
      const end = text.indexOf('\n');
      if (end >= 0) resolve(text.slice(0, end));
    });
    child.on('error', () => resolve(undefined));
    child.on('close', () => resolve(undefined));
  });
}
