/** Whether a process with this id exists, ours to signal or not. */
import { codeOf } from './failure.ts';

export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}
