/**
 * A server of the scale-out engine (PostgreSQL, a Ceph daemon) as a process of a test. It dies with the process that started
 * it, whatever ends that: the kernel kills it (PR_SET_PDEATHSIG), so that no failed or interrupted test leaves one behind.
 */
import { existsSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { resultOf } from './command-result.ts';
import { readIfThere } from './read-if-there.ts';

export interface EngineProcess {
  readonly pid: number;
  isRunning(): boolean;
  /** kill -9, and waits until it is gone */
  kill(): Promise<void>;
  /** the end of what it printed */
  log(): string;
}

export interface EngineCommand {
  readonly command: readonly string[];
  /** where its output is appended */
  readonly logPath: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** as whom it runs; ourselves by default */
  readonly user?: SystemUser | undefined;
}

export interface SystemUser {
  readonly uid: number;
  readonly gid: number;
}

const LOG_CHARS_SHOWN = 3000;
const POLL_MS = 20;
/** Below the range systems take ports for outgoing connections from, so that a port is still free after a restart. */
const PORT_FIRST = 20_000;
const PORT_LAST = 32_000;
const PORT_ATTEMPTS = 50;

export function startEngineProcess(options: EngineCommand): EngineProcess {
  const log = openSync(options.logPath, 'a');
  const child = Bun.spawn([...asUser(options.user, ['--pdeathsig', 'KILL']), ...options.command], {
    cwd: '/',
    env: { ...process.env, ...options.environment },
    stdin: 'ignore',
    stdout: log,
    stderr: log,
  });
  return {
    pid: child.pid,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    log: () => readLogEnd(options.logPath),
    async kill() {
      child.kill('SIGKILL');
      await child.exited;
    },
  };
}

/** Runs to its end; its output. */
export async function runEngineCommand(
  command: readonly string[],
  options: {
    readonly environment?: Readonly<Record<string, string>>;
    readonly user?: SystemUser | undefined;
    /** where it runs */
    readonly folder?: string;
  } = {},
): Promise<string> {
  const child = Bun.spawn([...asUser(options.user, []), ...command], {
    cwd: options.folder ?? '/',
    env: { ...process.env, ...options.environment },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const { exitCode, stdout, stderr } = await resultOf(child);
  if (exitCode !== 0) throw new Error(`${command.join(' ')} ended with ${exitCode}: ${stderr}${stdout}`);
  return stdout;
}

function asUser(user: SystemUser | undefined, options: readonly string[]): string[] {
  const identity = user === undefined ? [] : [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups'];
  const all = [...identity, ...options];
  return all.length === 0 ? [] : ['setpriv', ...all];
}

/** Asks until `isReady`; rejects with what the process printed when it ends, or `withinMs` have passed, before that. */
export async function untilReady(
  what: string,
  process: EngineProcess,
  isReady: () => Promise<boolean> | boolean,
  withinMs: number,
): Promise<void> {
  const deadline = Date.now() + withinMs;
  while (!(await isReady())) {
    if (!process.isRunning()) throw new Error(`${what} ended while it started: ${process.log()}`);
    if (Date.now() > deadline) {
      throw new Error(`${what} did not start within ${withinMs} ms: ${process.log()}`);
    }
    await Bun.sleep(POLL_MS);
  }
}

const OWNER = 'owner';

/**
 * Notes that the folder is this process's, and removes those of the same prefix whose process is gone: killed before it
 * could. The whole path of the prefix, such as `/tmp/hf-`.
 */
export function ownEngineFolder(path: string, prefix: string): void {
  writeFileSync(join(path, OWNER), String(process.pid));
  const parent = dirname(prefix);
  for (const name of readdirSync(parent)) {
    const other = join(parent, name);
    if (other.startsWith(prefix) && isAbandoned(other)) rmSync(other, { recursive: true, force: true });
  }
}

function isAbandoned(folder: string): boolean {
  try {
    const pid = Number(readFileSync(join(folder, OWNER), 'utf8'));
    return pid > 0 && !existsSync(`/proc/${pid}`);
  } catch {
    // Not ours to judge, or just being made or removed.
    return false;
  }
}

/** The first of `count` neighbouring ports that are free on loopback right now. */
export async function findFreePorts(count: number): Promise<number> {
  for (let attempt = 0; attempt < PORT_ATTEMPTS; attempt += 1) {
    const first = PORT_FIRST + Math.floor(Math.random() * (PORT_LAST - PORT_FIRST - count));
    const ports = Array.from({ length: count }, (_, index) => first + index);
    const areFree = await Promise.all(ports.map(isPortFree));
    if (areFree.every(Boolean)) return first;
  }
  throw new Error(`no ${count} neighbouring ports are free between ${PORT_FIRST} and ${PORT_LAST}`);
}

function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}

function readLogEnd(path: string): string {
  return readIfThere(path)?.slice(-LOG_CHARS_SHOWN) ?? '';
}
