/** Servers under test: started pinned, watched through /proc, ended by their own pid. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pinned } from './machine.ts';

/** Clock ticks per second of /proc/PID/stat; 100 on every Linux build. */
const TICKS_PER_SECOND = 100;
const STOP_WAIT_MS_MAX = 20_000;

export interface ServerProcess {
  readonly pid: number;
  /** lines seen on stdout so far */
  readonly lines: readonly string[];
  /** CPU time of the process and its children so far, ms */
  cpuMs(): number;
  /** SIGTERM, then SIGKILL after 20 s. Resolves when it has ended. */
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly core: number | undefined;
  readonly logFile: string;
  readonly cwd?: string;
  readonly env?: Record<string, string>;
  /** resolves the start: a line on stdout that matches, or a port that answers */
  readonly ready: { readonly line: RegExp } | { readonly port: number };
  readonly readyWithinMs?: number;
}

/** A part of the bench that is a process of its own; children.ts has them by name. */
export function childCommand(name: string, ...args: readonly string[]): string[] {
  return [process.execPath, join(import.meta.dir, 'main.ts'), 'child', name, ...args];
}

/** Everything started here that may still run: a row that fails half way must not leave a server behind. */
const running = new Set<Bun.Subprocess>();

/** Tells what is still running to end; for the end of a row that failed and of the program. */
export function endLeftServers(): void {
  for (const child of running) child.kill('SIGTERM');
}

export async function startServer(command: readonly string[], options: StartOptions): Promise<ServerProcess> {
  const child = Bun.spawn(pinned(command, options.core), {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: { ...process.env, ...options.env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: Bun.file(options.logFile),
  });
  running.add(child);
  void child.exited.then(() => running.delete(child));
  const lines: string[] = [];
  void collectLines(child.stdout, lines);
  const server: ServerProcess = {
    pid: child.pid,
    lines,
    cpuMs: () => listProcesses(child.pid).reduce((sum, pid) => sum + cpuMsOf(pid), 0),
    stop: async () => {
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WAIT_MS_MAX);
      await child.exited;
      clearTimeout(timer);
    },
  };
  const deadline = Date.now() + (options.readyWithinMs ?? 30_000);
  while (!(await isReady(options.ready, lines))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await server.stop();
      const log = existsSync(options.logFile) ? readFileSync(options.logFile, 'utf8').slice(-2000) : '';
      throw new Error(`${command.join(' ')} did not become ready. Its log ends:\n${log}`);
    }
    await Bun.sleep(20);
  }
  return server;
}

async function collectLines(stdout: ReadableStream<Uint8Array>, lines: string[]): Promise<void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stdout) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts);
  }
}

async function isReady(ready: StartOptions['ready'], lines: readonly string[]): Promise<boolean> {
  if ('line' in ready) return lines.some((line) => ready.line.test(line));
  try {
    const socket = await Bun.connect({ hostname: '127.0.0.1', port: ready.port, socket: { data: () => {} } });
    socket.end();
    return true;
  } catch {
    return false;
  }
}

/** The process and all its descendants that are alive. */
export function listProcesses(root: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const parent = readStat(Number(name))?.parent;
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const tree = [root];
  for (let index = 0; index < tree.length; index++) tree.push(...(children.get(tree[index] as number) ?? []));
  return tree;
}

/** CPU time of one process so far, ms; 0 when it has ended. */
export function cpuMsOf(pid: number): number {
  return ((readStat(pid)?.ticks ?? 0) * 1000) / TICKS_PER_SECOND;
}

/** Absent when the process has ended in between. */
function readStat(pid: number): { parent: number; ticks: number } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) };
  } catch {
    return undefined;
  }
}

export interface MemorySample {
  /** sum over the tree; memory shared between processes counts once */
  readonly pssMiB: number;
  /** sum over the tree */
  readonly rssMiB: number;
}

export function sampleMemory(root: number): MemorySample {
  let pss = 0;
  let rss = 0;
  for (const pid of listProcesses(root)) {
    try {
      const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
      pss += Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0);
      rss += Number(/^Rss:\s+(\d+)/m.exec(text)?.[1] ?? 0);
    } catch {
      // ended between the listing and the read: it uses no memory any more
    }
  }
  return { pssMiB: pss / 1024, rssMiB: rss / 1024 };
}

/** A loopback port nobody listens on right now; for peers that cannot pick one themselves. */
export function findFreePort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => {} } });
  const { port } = probe;
  probe.stop(true);
  return port;
}
