/**
 * Lets more connections wait for the process to accept them than the runtime asks for, which is 512. Beyond that the system drops the
 * first packet of a connection, and its sender tries again after 1, 3 and 7 s: so a burst of one tenant's connections would hold up
 * the new connections of all.
 */
import { dlopen } from 'bun:ffi';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** The system cuts it down to `net.core.somaxconn`. */
const BACKLOG = 4096;
const LIBRARIES: readonly string[] = ['libc.so.6', 'libc.so'];
const LISTENING = '0A';

/** Best effort: where the system does not tell which sockets there are, the runtime's own length stays. */
export function widenBacklog(port: number): void {
  const sockets = findListening(port);
  if (sockets.length === 0) return;
  for (const library of LIBRARIES) {
    try {
      const { symbols, close } = dlopen(library, { listen: { args: ['i32', 'i32'], returns: 'i32' } });
      for (const socket of sockets) symbols.listen(socket, BACKLOG);
      close();
      return;
    } catch {
      // Another system calls its library otherwise.
    }
  }
}

/** Descriptors of this process that listen on `port`. */
function findListening(port: number): number[] {
  try {
    const names = new Set(['tcp', 'tcp6'].flatMap((family) => namesIn(`/proc/self/net/${family}`, port)));
    return readdirSync('/proc/self/fd')
      .filter((descriptor) => names.has(targetOf(descriptor)))
      .map(Number);
  } catch {
    return [];
  }
}

/** Of the sockets in a table of the system: their names as a descriptor has them. */
function namesIn(table: string, port: number): string[] {
  const portText = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return readFileSync(table, 'latin1')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => state === LISTENING && local?.endsWith(portText))
    .map((fields) => `socket:[${fields[9]}]`);
}

function targetOf(descriptor: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`);
  } catch {
    return '';
  }
}
