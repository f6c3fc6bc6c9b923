/**
 * Why: the runtime does not hand out the descriptors that it listens on.
 * Since: Bun 1.4.5 or earlier.
 * Without it: neither accept-throttle.ts nor widen-backlog.ts can work.
 * Goes when: both of them have gone.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const LISTENING = '0A';

/** Descriptors of this process that listen on `port`; none where the system does not tell which sockets there are. */
export function findListening(port: number): number[] {
  try {
    const names = new Set(['tcp', 'tcp6'].flatMap((family) => namesIn(`/proc/self/net/${family}`, port)));
    return readdirSync('/proc/self/fd')
      .filter((descriptor) => names.has(targetOf(descriptor)))
      .map(Number);
  } catch {
    return [];
  }
}

/** The names of the sockets in a table of the system, in the form that a descriptor has. */
function namesIn(table: string, port: number): string[] {
  const portText = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return readFileSync(table, 'latin1')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => state === LISTENING && local?.endsWith(portText))
    .map((fields) => `socket:[${fields[9]}]`);
}

/** The target of a descriptor of this process, as the system names it; empty: none. */
export function targetOf(descriptor: string | number): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return '';
  }
}
