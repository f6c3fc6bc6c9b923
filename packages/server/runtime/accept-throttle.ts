/**
 * Why: the runtime accepts connections until none waits, and answers each before it takes the next. While refused senders come back
 * faster than they are refused, it serves nobody else. So after some requests the descriptor that it accepts from stands for
 * something else until the end of the round of the event loop. Meanwhile connections, and what they have sent, wait in the system.
 * Since: Bun 1.4.5 or earlier.
 * Without it: 1,000 connections that are refused and come back hold up a neighbour's request for 4.8 to 6.9 s; with it 0.2 to 0.5 s.
 * Goes when: the runtime bounds what it accepts in a round.
 */
import { closeSync, openSync } from 'node:fs';
import { findListening, targetOf } from './listening-sockets.ts';
import { openSystemFunctions } from './system-library.ts';

const NOTHING = '/dev/null';

interface System {
  fcntl(descriptor: number, command: number, value: number): number;
  dup3(source: number, descriptor: number, flags: number): number;
}

interface Sockets {
  /** a further descriptor of the same socket; below 0: none */
  copy(descriptor: number): number;
  /** lets `descriptor` stand for what `source` stands for */
  replace(source: number, descriptor: number): void;
}

interface Held {
  /** what the runtime accepts from */
  readonly descriptor: number;
  readonly name: string;
  /** keeps the socket open, and among those that the runtime waits for */
  readonly kept: number;
}

export class AcceptThrottle {
  readonly #sockets: Sockets;
  readonly #held: readonly Held[];
  /** nothing can be accepted from it */
  readonly #nothing: number;
  #requests = 0;
  #isOn = false;
  #isOver = false;

  private constructor(sockets: Sockets, held: readonly Held[]) {
    this.#sockets = sockets;
    this.#held = held;
    this.#nothing = openSync(NOTHING, 'r');
  }

  /** undefined: the system has no such calls, or does not tell which sockets there are. Then everything stays as the runtime does it. */
  static open(port: number): AcceptThrottle | undefined {
    const descriptors = findListening(port);
    const sockets = descriptors.length === 0 ? undefined : openSockets();
    if (sockets === undefined) return undefined;
    const held = descriptors.map((descriptor) => ({
      descriptor,
      name: targetOf(descriptor),
      kept: sockets.copy(descriptor),
    }));
    if (held.every(({ kept }) => kept >= 0)) return new AcceptThrottle(sockets, held);
    for (const { kept } of held) if (kept >= 0) closeSync(kept);
    return undefined;
  }

  /** To be called for each request that begins. */
  note(): void {
    this.#requests += 1;
    if (this.#requests < 64 || this.#isOn || this.#isOver) return;
    // A socket that the runtime has closed unannounced: its number may be that of another file now.
    if (!this.#held.every(({ descriptor, name }) => targetOf(descriptor) === name)) {
      this.end();
      return;
    }
    this.#isOn = true;
    for (const { descriptor } of this.#held) this.#sockets.replace(this.#nothing, descriptor);
    setImmediate(() => this.#loosen());
  }

  /** To be called before the runtime closes its sockets. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#loosen();
    for (const { kept } of this.#held) closeSync(kept);
    closeSync(this.#nothing);
  }

  #loosen(): void {
    if (!this.#isOn) return;
    this.#isOn = false;
    this.#requests = 0;
    for (const { descriptor, kept } of this.#held)
      if (targetOf(descriptor) === NOTHING) this.#sockets.replace(kept, descriptor);
  }
}

function openSockets(): Sockets | undefined {
  if (process.platform !== 'linux') return undefined;
  const system = openSystemFunctions<System>({
    fcntl: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    dup3: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
  });
  if (system === undefined) return undefined;
  return {
    copy: (descriptor) => system.fcntl(descriptor, 1030, 0), // F_DUPFD_CLOEXEC
    replace: (source, descriptor) => void system.dup3(source, descriptor, 0o2000000), // O_CLOEXEC
  };
}
