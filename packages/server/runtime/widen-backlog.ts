/**
 * Why: the runtime lets 512 connections wait to be accepted. Beyond that the system drops the first packet of a connection, and its
 * sender tries again after 1, 3 and 7 s, so a burst of one tenant holds up the new connections of all.
 * Since: Bun 1.4.5 or earlier.
 * Without it: beside 1,000 connections that are refused and come back, a new connection waits for up to 2.3 s; with it 0.6 s.
 * Goes when: the runtime takes the length of the queue as an option.
 */
import { findListening } from './listening-sockets.ts';
import { openSystemFunctions } from './system-library.ts';

interface System {
  listen(socket: number, backlog: number): number;
}

/** Best effort: where the system does not tell which sockets there are, the runtime's own length stays. */
export function widenBacklog(port: number): void {
  const sockets = findListening(port);
  if (sockets.length === 0) return;
  const system = openSystemFunctions<System>({ listen: { args: ['i32', 'i32'], returns: 'i32' } });
  // The system cuts it down to `net.core.somaxconn`.
  for (const socket of sockets) system?.listen(socket, 4096);
}
