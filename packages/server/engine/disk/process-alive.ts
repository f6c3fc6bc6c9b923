/** Whether a process with this id runs, ours to signal or not. */
import { readFileSync } from 'node:fs';
import { codeOf } from '../../error-code.ts';

export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
  return !isZombie(pid);
}

/** A process that has ended keeps its id until its parent reads its exit code: for seconds, in some containers indefinitely. */
function isZombie(pid: number): boolean {
  if (process.platform !== 'linux') return false;
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the state is in parentheses and may contain any character.
    return 'ZX'.includes(stat.charAt(stat.lastIndexOf(')') + 2));
  } catch {
    return false;
  }
}
