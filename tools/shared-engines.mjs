// Engines and programs that test files share over one `npm test`: which files need which engine, program of the distribution or build, installing
// what is missing, and starting or building each once, beside the files that need none.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runKept, showErrors } from './child-run.mjs';
import { PROGRAMS } from './debian-programs.mjs';
import { reach } from './imports.mjs';

/** A test file needs one when it imports this, itself or through others. */
const DOORS = new Map([
  [join('test', 'support', 'postgres-server.ts'), 'postgres'],
  [join('test', 'support', 'ceph-server.ts'), 'ceph'],
  [join('test', 'support', 'headless-chromium.ts'), 'chromium'],
  [join('test', 'support', 'systemd-analyze.ts'), 'systemd'],
  [join('test', 'support', 'promtool.ts'), 'promtool'],
  [join('test', 'support', 'strace.ts'), 'strace'],
  [join('test', 'support', 'fuse.ts'), 'fuse'],
  [join('test', 'support', 'cache-clients.ts'), 'cache-clients'],
  [join('test', 'support', 'webdav-clients.ts'), 'webdav-clients'],
  [join('proof', 'protocol', 'check-model.ts'), 'spin'],
  [join('test', 'support', 'holdfast-command.ts'), 'holdfast'],
]);
const INSTALLER = fileURLToPath(new URL('./debian-programs.mjs', import.meta.url));
const KEEPER = join('test', 'support', 'shared-engines.ts');
const INSTALL_TIMEOUT_MS = 30 * 60 * 1000;

/** @returns {string[]} the engines a test file (a path from `root`) needs */
export function findNeededEngines(root, file) {
  return reach(root, file, { withTypes: true, ends: DOORS }).flatMap((path) => DOORS.get(path) ?? []);
}

/**
 * @param {{root: string, bun: string, print: (text: string) => void}} options
 */
export function makeSharedEngines({ root, bun, print }) {
  /** @type {Map<string, import('node:child_process').ChildProcess>} */
  const keepers = new Map();
  /** @type {Map<string, Promise<{environment: Record<string, string>} | {error: Error}>>} */
  const starts = new Map();
  const settled = new Set();
  // One at a time: they share the lock of the package manager.
  let installed = Promise.resolve();

  function install(engine) {
    // PostgreSQL comes from npm.
    if (!(engine in PROGRAMS)) return Promise.resolve();
    installed = installed.then(async () => {
      const bounds = { cwd: root, timeoutMs: INSTALL_TIMEOUT_MS, show: print };
      const { ok, output } = await runKept(process.execPath, [INSTALLER, engine], bounds);
      return ok ? undefined : new Error(`${engine} is not there and could not be installed:\n${output}`);
    });
    return installed;
  }

  async function start(engine) {
    const startedAt = Date.now();
    const error = await install(engine);
    if (error !== undefined) return { error };
    // The others are only installed: each file starts its own.
    if (engine in PROGRAMS && engine !== 'ceph') return { environment: {} };
    const args = [join(root, KEEPER), engine];
    // Its own group: Ctrl-C is not for it, the end of its input is.
    const child = spawn(bun, args, { cwd: root, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    keepers.set(engine, child);
    const readErrors = showErrors(child, print);
    // A keeper that has ended is seen by the end of its output.
    child.stdin.on('error', () => {});
    const line = await readLine(child);
    if (line === undefined)
      return { error: new Error(`the shared ${engine} did not start:\n${readErrors()}`) };
    print(`== shared ${engine} runs after ${Date.now() - startedAt} ms\n`);
    return { environment: JSON.parse(line) };
  }

  function begin(engine) {
    settled.delete(engine);
    const started = start(engine).finally(() => settled.add(engine));
    starts.set(engine, started);
    return started;
  }

  return {
    /** Starts them beside everything else. @returns {Promise<unknown>} settles when the outcome of each is known */
    begin: (engines) => Promise.all(engines.map(begin)),
    /** Whether it is known of all of them whether they run. */
    areSettled: (engines) => engines.every((engine) => settled.has(engine)),
    /** The environment in which a file that needs `engines` runs; one that has ended since is started again. */
    async provide(engines) {
      const environment = {};
      for (const engine of engines) {
        const keeper = keepers.get(engine);
        const isOver = keeper !== undefined && (keeper.exitCode !== null || keeper.signalCode !== null);
        const outcome = await (isOver && settled.has(engine) ? begin(engine) : starts.get(engine));
        if (outcome.error !== undefined) throw outcome.error;
        Object.assign(environment, outcome.environment);
      }
      return environment;
    },
    async end() {
      await Promise.all(
        [...keepers.values()].map((child) => {
          const closed = new Promise((resolve) => child.once('close', resolve));
          child.stdin.end();
          return child.exitCode === null && child.signalCode === null ? closed : undefined;
        }),
      );
      keepers.clear();
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
