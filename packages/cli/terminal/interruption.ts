/**
 * Ctrl-C, SIGTERM and SIGHUP, for every command but `serve`. One line says what is kept, the command has a moment to tidy up, and
 * the process then ends by that same signal, so that a loop of the shell around the command ends too.
 */
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { CliError } from '../cli-error.ts';
import { printable, printNote } from './output.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
type EndingSignal = (typeof SIGNALS)[number];

export const NOTHING_CHANGED = 'nothing was changed';
const KEPT_DEFAULT = 'the work done so far is kept, and the same command can be run again';

let kept = KEPT_DEFAULT;
const controller = new AbortController();
const beforeLine = new Set<() => void>();
const beforeEnd = new Set<() => void>();
/** Only a job has something to end well; anything else just stops. */
let isTidying = false;
let onFirst: (signal: EndingSignal) => void = () => undefined;
const first = new Promise<EndingSignal>((resolve) => {
  onFirst = resolve;
});

/** Fires at the first signal; its reason is the error that a job then rejects with. */
export const interruption: AbortSignal = controller.signal;

/** Completes "interrupted; …" for what the command does from here on. */
export function sayWhenInterrupted(sentence: string): void {
  kept = sentence;
}

/** `work` runs at the first signal, before the line is said: a view gives the terminal back. Call the result to take it back. */
export function beforeInterruptionLine(work: () => void): () => void {
  return register(beforeLine, work);
}

/** `work` runs last, when nothing is waited for any more; it must not wait either. Call the result to take it back. */
export function beforeInterruptedEnd(work: () => void): () => void {
  return register(beforeEnd, work);
}

function register(works: Set<() => void>, work: () => void): () => void {
  const own = (): void => work();
  works.add(own);
  return () => works.delete(own);
}

/** Handles signals from now on. An ignored hang-up (`nohup`) stays so; an ignored Ctrl-C does not, because shells ignore it for `&`. */
export function watchForInterruption(): void {
  for (const signal of SIGNALS) {
    if (signal !== 'SIGHUP' || !isSignalIgnored(signal)) process.on(signal, () => onSignal(signal));
  }
}

function onSignal(signal: EndingSignal): void {
  // The second one waits for nothing.
  if (interruption.aborted) endBySignal(signal);
  isTidying = beforeLine.size > 0;
  for (const work of beforeLine) work();
  const line = `interrupted; ${kept}`;
  printNote(`holdfast: ${printable(line)}`);
  controller.abort(new CliError(line));
  onFirst(signal);
}

/** `command`, unless a signal comes first: then this never settles, and the process ends by it. `flush` waits until all is written. */
export async function untilInterrupted<T>(command: Promise<T>, flush: () => Promise<unknown>): Promise<T> {
  const settled = command.then(
    () => undefined,
    () => undefined,
  );
  const signal = await Promise.race([settled, first]);
  if (signal === undefined && !interruption.aborted) return command;
  // Work under way has this long to clean up after the signal.
  if (isTidying) await atMost(1_000, settled);
  // A pipe that nobody reads must not delay the end.
  await atMost(300, flush());
  return endBySignal(await first);
}

function endBySignal(signal: EndingSignal): never {
  for (const work of beforeEnd) {
    try {
      work();
    } catch {
      // A failed clean-up does not keep the process from ending.
    }
  }
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // A blocked signal has not ended the process by now: exit with the code a shell would show for it.
  process.exit(128 + constants.signals[signal]);
}

function atMost(ms: number, work: Promise<unknown>): Promise<unknown> {
  return Promise.race([work, new Promise((resolve) => setTimeout(resolve, ms))]);
}

/** Whether the parent process ignored it, and so this one does. To be asked before a handler of it is installed. */
export function isSignalIgnored(signal: 'SIGHUP' | 'SIGTSTP'): boolean {
  try {
    const status = readFileSync('/proc/self/status', 'latin1');
    const mask = BigInt(`0x${/^SigIgn:\s*([0-9a-f]+)$/m.exec(status)?.[1] ?? '0'}`);
    return ((mask >> BigInt(constants.signals[signal] - 1)) & 1n) === 1n;
  } catch {
    // Not Linux: then it is not known to be.
    return false;
  }
}
