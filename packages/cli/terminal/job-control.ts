/** Ctrl-Z, `fg` and `bg`, for what changes the terminal. The process stops by the signal's default action, as any program. */
import { readFileSync } from 'node:fs';
import { isSignalIgnored } from './interruption.ts';

interface StopListener {
  /** Gives the terminal back. It must not wait, because the process stops as soon as it returns. */
  onStop(): void;
  /** The process runs again, and others may have written meanwhile. After `kill -STOP` no `onStop` came before. */
  onContinue(): void;
}

export interface JobControl {
  /** Call the result to take it back. */
  watch(listener: StopListener): () => void;
  /** Whether the terminal belongs to another job, such as the shell itself after `bg`. */
  isInBackground(): boolean;
}

const listeners = new Set<StopListener>();
/** If the parent process made this one ignore Ctrl-Z, it stays ignored. */
let isStopIgnored = false;

export const jobControl: JobControl = {
  watch(listener) {
    const own = { ...listener };
    if (listeners.size === 0) {
      isStopIgnored = isSignalIgnored('SIGTSTP');
      handleSignals();
    }
    listeners.add(own);
    return () => {
      if (listeners.delete(own) && listeners.size === 0) leaveSignals();
    };
  },
  isInBackground,
};

function handleSignals(): void {
  if (!isStopIgnored) process.on('SIGTSTP', stop);
  process.on('SIGCONT', goOn);
}

function leaveSignals(): void {
  process.off('SIGTSTP', stop).off('SIGCONT', goOn);
}

function stop(): void {
  for (const { onStop } of listeners) onStop();
  leaveSignals();
  // It returns when the process is continued, or at once where the system stops nothing, as where no shell controls jobs.
  process.kill(process.pid, 'SIGTSTP');
  handleSignals();
  goOn();
}

function goOn(): void {
  for (const { onContinue } of listeners) onContinue();
}

function isInBackground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    // The name of the program, in parentheses, may hold anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [group, foreground] = [Number(fields[2]), Number(fields[5])];
    // Without a terminal of its own the process belongs to no job.
    return foreground > 0 && foreground !== group;
  } catch {
    // Not Linux: then it is not known to be.
    return false;
  }
}
