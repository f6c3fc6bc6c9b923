/** Runs one command to its end and says how long it took, what CPU it used and how much memory it had at most. */
import { readdirSync, readFileSync } from 'node:fs';

export interface CommandRun {
  readonly elapsedMs: number;
  /** user and system, children included */
  readonly cpuMs: number;
  /** highest resident memory (VmHWM), all processes of the command together, MiB */
  readonly peakMiB: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * What a process had at most stands in /proc as long as it lives, so only what it came to after the last look is missed. What
 * the system tells at its end would not do: it counts the memory of the process that started it too.
 */
const LOOK_EVERY_MS = 20;

/** Throws when it ends with anything but 0. */
export async function runCommand(
  command: readonly string[],
  { cwd, env }: CommandOptions = {},
): Promise<CommandRun> {
  const startedAt = performance.now();
  const child = Bun.spawn([...command], {
    ...(cwd === undefined ? {} : { cwd }),
    env: { ...process.env, ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  });
  const peaks = new Map<number, number>();
  const look = (): void => {
    for (const pid of listTree(child.pid)) peaks.set(pid, Math.max(peaks.get(pid) ?? 0, peakOf(pid)));
  };
  look();
  const timer = setInterval(look, LOOK_EVERY_MS);
  try {
    const [stdout, stderr, exitCode] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    const elapsedMs = performance.now() - startedAt;
    if (exitCode !== 0) {
      throw new Error(`${command.join(' ')} ended with ${exitCode}: ${stderr.trim().slice(-500)}`);
    }
    const cpuMs = Number(child.resourceUsage()?.cpuTime.total ?? 0) / 1000;
    const peakMiB = [...peaks.values()].reduce((sum, peak) => sum + peak, 0);
    return { elapsedMs, cpuMs, peakMiB, stdout, stderr };
  } finally {
    clearInterval(timer);
  }
}

/** Highest resident memory of a process that runs, and of what it has started, MiB. */
export function peakOfTree(root: number): number {
  return listTree(root).reduce((sum, pid) => sum + peakOf(pid), 0);
}

/** The process and what it has started, as far as they live. */
function listTree(root: number): number[] {
  const tree = [root];
  for (let index = 0; index < tree.length; index++) tree.push(...childrenOf(tree[index] as number));
  return tree;
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      (readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').match(/\d+/g) ?? []).map(Number),
    );
  } catch {
    return []; // it has ended meanwhile
  }
}

/** MiB; 0 when it has ended meanwhile. */
function peakOf(pid: number): number {
  try {
    return Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}
