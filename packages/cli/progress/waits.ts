/** Short waits outside of jobs: nothing is said unless one lasts. */
import { once } from 'node:events';
import type { ProgressReporter } from '@holdfast/client/internal';
import { formatCount } from '@holdfast/protocol';
import { printNote } from '../terminal/output.ts';
import { runShortJob } from './run-job.ts';

/** Waits for `work`; says on stderr what it waits for when that lasts. `cause` completes "stalled for 8 s: …". */
export function saying<T>(cause: string, work: (progress: ProgressReporter) => Promise<T>): Promise<T> {
  return runShortJob({}, async (progress) => {
    const isDone = progress.waitFor(cause);
    try {
      return await work(progress);
    } finally {
      isDone();
    }
  });
}

/** Lets one line through in a while, and none of work that is soon done. */
export function nowAndThen(say: (line: string) => void): (line: string) => void {
  let saidAt = performance.now();
  return (line) => {
    const now = performance.now();
    if (now - saidAt < 3_000) return;
    saidAt = now;
    say(line);
  };
}

/** For a person at a terminal who waits for a count of nodes. */
export function sayCounted(): (nodes: number) => void {
  const say = nowAndThen(printNote);
  return (nodes) => {
    if (process.stderr.isTTY) say(`counting: ${formatCount(nodes)} nodes so far`);
  };
}

/** Writes to stdout no faster than it is read. A slow reader is named, unless a person may be looking at both, as in `less`. */
export async function writeSlowly(data: string | Uint8Array, isWatched = false): Promise<void> {
  if (process.stdout.write(data)) return;
  const drained = (): Promise<unknown> => once(process.stdout, 'drain');
  await (isWatched ? drained() : sayingWhileRead(drained));
}

export function sayingWhileRead<T>(work: () => Promise<T>): Promise<T> {
  return process.stderr.isTTY ? work() : saying('what reads the output has not taken all of it yet', work);
}
