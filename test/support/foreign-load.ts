/** How much of the machine other programs take while a test measures times: such a test may stand still while they run. */
import { readFileSync } from 'node:fs';
import { findDescendants } from './server-process.ts';

/** A machine that is others' altogether would make every limit infinite. */
const SHARE_MAX = 0.9;

/**
 * Counts from now on. The result says which share of the machine's CPU time went to neither this process nor its descendants, nor
 * was left over.
 */
export function watchForeignLoad(): () => number {
  const machine = readMachine();
  const own = readOwn();
  return () => {
    const now = readMachine();
    const foreign = now.busy - machine.busy - (readOwn() - own);
    return Math.min(SHARE_MAX, Math.max(0, foreign / Math.max(1, now.all - machine.all)));
  };
}

/** Clock ticks of all CPUs. Time that another guest of the hardware took counts as busy. */
function readMachine(): { readonly all: number; readonly busy: number } {
  const line = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0] ?? '';
  const [user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0] = line
    .split(/\s+/)
    .slice(1)
    .map(Number);
  const busy = user + nice + system + irq + soft + steal;
  return { all: busy + idle + wait, busy };
}

/** Clock ticks of this process and its descendants, also of those that have ended. */
function readOwn(): number {
  return [process.pid, ...findDescendants(process.pid)].reduce((sum, pid) => sum + readTicks(pid), 0);
}

function readTicks(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    // utime, stime, cutime, cstime: the fields 14 to 17, of which the first two stand before the split.
    return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0);
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}
