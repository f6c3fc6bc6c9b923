// Runs programs whose output is kept, so that each is shown in one piece and the end of a long run can say again what failed.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** Characters that are kept of the end of each output: more than any good run prints. */
const OUTPUT_KEPT_CHARS_MAX = 1024 * 1024;
/** How long to listen after a program has ended: its children may hold its output open. */
const OUTPUT_AFTER_EXIT_MS_MAX = 2000;
/** Linux counts in these, whatever the clock of the kernel. */
const MS_PER_TICK = 10;
/** Between the wish that a program ends and its end by force. */
const END_MS_MAX = 3000;

/** Children that run, each with its end. @type {Map<import('node:child_process').ChildProcess, Promise<unknown>>} */
const underWay = new Map();

/** Gives what `stream` brings to `keep`, decoded. */
function tap(stream, keep) {
  const decoder = new TextDecoder();
  stream.on('data', (bytes) => keep(decoder.decode(bytes, { stream: true })));
}

/** Makes `close` follow soon after `exit`, even if another process still holds the output. */
function endOutputAfterExit(child) {
  child.on('exit', () => {
    const timer = setTimeout(() => {
      child.stdout.destroy();
      child.stderr.destroy();
    }, OUTPUT_AFTER_EXIT_MS_MAX);
    child.on('close', () => clearTimeout(timer));
  });
}

function keepEnd(charsMax = OUTPUT_KEPT_CHARS_MAX) {
  let text = '';
  return {
    add(more) {
      text += more;
      // Cut seldom, so that a program that prints much costs little.
      if (text.length > 2 * charsMax) text = text.slice(-charsMax);
    },
    read: () => text.slice(-charsMax),
  };
}

/**
 * Shows what a child, whose outputs are pipes, writes to its stderr.
 * @returns {() => string} reads the end of that
 */
export function showErrors(child, show) {
  const kept = keepEnd();
  tap(child.stderr, (text) => {
    kept.add(text);
    show(text);
  });
  endOutputAfterExit(child);
  return kept.read;
}

/** The CPU time of what this process has started, and of all below that, as far as it has ended; undefined if this is no Linux. */
export function readCpuMs() {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1).split(' ');
    // cutime and cstime: the fields 16 and 17, of which two stand before the split.
    return (Number(fields[13]) + Number(fields[14])) * MS_PER_TICK;
  } catch {
    return undefined;
  }
}

let countedCpuMs = 0;

/** The CPU time of a child that has just ended. */
function takeCpuMs() {
  const cpuMs = readCpuMs();
  if (cpuMs === undefined) return undefined;
  const usedMs = cpuMs - countedCpuMs;
  countedCpuMs = cpuMs;
  return usedMs;
}

/** To the program and all it started. */
function signalGroup(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    // Nobody is left.
  }
}

/** Ends everything that runs, first by `signal`, then by force. */
export async function endAllRuns(signal) {
  const children = [...underWay.keys()];
  for (const child of children) signalGroup(child, signal);
  const timer = setTimeout(() => {
    for (const child of children) signalGroup(child, 'SIGKILL');
  }, END_MS_MAX);
  await Promise.all(underWay.values());
  clearTimeout(timer);
  // Children of a program that ended may be left, because they did not listen.
  for (const child of children) signalGroup(child, 'SIGKILL');
}

/**
 * Runs a program in a process group of its own to its end, or kills the group after `timeoutMs`.
 * @param {{cwd: string, environment?: Record<string, string>, timeoutMs: number, show?: (text: string) => void}} options
 *   `show`: is given the output as it comes
 * @returns {Promise<{ok: boolean, output: string, cpuMs: number | undefined}>} `output`: the end of what it printed, and
 *   how it ended if not well
 */
export function runKept(command, args, { cwd, environment = {}, timeoutMs, show = () => {} }) {
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const ended = waitForEnd(child, command, timeoutMs, show);
  underWay.set(child, ended);
  return ended.finally(() => underWay.delete(child));
}

function waitForEnd(child, command, timeoutMs, show) {
  return new Promise((resolve) => {
    const kept = keepEnd();
    const add = (text) => {
      kept.add(text);
      show(text);
    };
    let cpuMs;
    child.on('exit', () => {
      cpuMs = takeCpuMs();
    });
    // Not by spawn's own option, whose timer outlives a program that is not there.
    const timer = setTimeout(() => {
      add(`\nkilled after ${timeoutMs / 1000} s: more means it hangs`);
      signalGroup(child, 'SIGKILL');
    }, timeoutMs);
    const end = (why) => {
      clearTimeout(timer);
      if (why !== undefined) add(`\n${why}\n`);
      resolve({ ok: why === undefined, output: kept.read(), cpuMs });
    };
    tap(child.stdout, add);
    tap(child.stderr, add);
    endOutputAfterExit(child);
    child.on('error', (error) => end(`${command} did not run: ${error.message}`));
    child.on('close', (status, signal) => {
      if (status === 0) end(undefined);
      else end(signal === null ? `ended with status ${status}` : `ended by ${signal}`);
    });
  });
}
