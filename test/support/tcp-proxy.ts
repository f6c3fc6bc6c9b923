/**
 * A TCP proxy on loopback that is as bad as networks are: it passes, hangs (swallows what comes and says nothing), resets,
 * slows (bytes/s, delay before each chunk) or cuts a connection off after N bytes. The mode may change at any
 * time, for all connections or for the next ones alone, and connections that are open follow.
 */
import { connect as connectTo, createServer, type Server, type Socket } from 'node:net';

export type ProxyMode =
  | { readonly kind: 'pass' }
  /** takes connections and bytes, forwards nothing more and never answers; closes nothing */
  | { readonly kind: 'hang' }
  /** resets every connection, the open ones at once */
  | { readonly kind: 'reset' }
  /** in each direction of each connection */
  | { readonly kind: 'slow'; readonly bytesPerSecond: number; readonly delayMs: number }
  /**
   * Each connection passes this many bytes of answers more and is reset a moment after the last of them. Other mode that
   * comes before the reset calls it off, and the connection follows.
   */
  | { readonly kind: 'cut'; readonly afterBytes: number };

export interface TcpProxy {
  readonly port: number;
  /** `host:port` */
  readonly address: string;
  /** connections that are open right now */
  readonly connections: number;
  /** connections ever taken */
  readonly accepted: number;
  /** bytes of answers that have passed, ever */
  readonly answerBytes: number;
  /** for every connection, open or to come; forgets what `setModeOnce` left */
  setMode(mode: ProxyMode): void;
  /** for the next `count` connections alone */
  setModeOnce(mode: ProxyMode, count?: number): void;
  close(): Promise<void>;
}

const PASS: ProxyMode = { kind: 'pass' };
/** between the last byte that passes and the reset, which also takes back what its receiver has not read yet */
const CUT_PAUSE_MS = 20;

interface ProxyTarget {
  readonly host?: string;
  readonly port: number;
}

/** With several targets each connection goes to the next one. */
export async function startTcpProxy(
  target: ProxyTarget | readonly ProxyTarget[],
  { cutPauseMs = CUT_PAUSE_MS } = {},
): Promise<TcpProxy> {
  const targets = [target].flat();
  const links = new Set<Link>();
  let mode = PASS;
  let exceptions: ProxyMode[] = [];
  let accepted = 0;
  let answerBytes = 0;
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    accepted += 1;
    const link = new Link(
      client,
      targets[accepted % targets.length] as ProxyTarget,
      exceptions.shift() ?? mode,
      cutPauseMs,
      (bytes) => {
        answerBytes += bytes;
      },
    );
    links.add(link);
    client.once('close', () => links.delete(link));
  });
  await listen(server);
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy listens on no port');
  return {
    port: address.port,
    address: `127.0.0.1:${address.port}`,
    get connections() {
      return links.size;
    },
    get accepted() {
      return accepted;
    },
    get answerBytes() {
      return answerBytes;
    },
    setMode(next) {
      mode = next;
      exceptions = [];
      for (const link of links) link.follow(next);
    },
    setModeOnce(next, count = 1) {
      exceptions = Array.from({ length: count }, () => next);
    },
    close() {
      for (const link of links) link.reset();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

function listen(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: 0, host: '127.0.0.1' }, () => resolve());
  });
}

/** One connection of a client and its other half. */
class Link {
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #cutPauseMs: number;
  readonly #onAnswer: (bytes: number) => void;
  #mode: ProxyMode = PASS;
  #answerBytesLeft = Number.POSITIVE_INFINITY;
  /** called when the mode changes: connections that hold bytes back look again */
  readonly #wakes = new Set<() => void>();
  #isReset = false;

  constructor(
    client: Socket,
    target: ProxyTarget,
    mode: ProxyMode,
    cutPauseMs: number,
    onAnswer: (bytes: number) => void,
  ) {
    this.#client = client;
    this.#cutPauseMs = cutPauseMs;
    this.#onAnswer = onAnswer;
    this.#upstream = connectTo({
      host: target.host ?? '127.0.0.1',
      port: target.port,
      allowHalfOpen: true,
      noDelay: true,
    });
    for (const socket of [client, this.#upstream]) {
      // An error is followed by `close`, which ends the other half.
      socket.on('error', () => {});
      socket.on('close', (hadError) => (hadError ? this.reset() : undefined));
    }
    client.on('close', () => this.#upstream.destroy());
    this.follow(mode);
    void this.#carry(client, this.#upstream, false);
    void this.#carry(this.#upstream, client, true);
  }

  follow(mode: ProxyMode): void {
    this.#mode = mode;
    this.#answerBytesLeft = mode.kind === 'cut' ? mode.afterBytes : Number.POSITIVE_INFINITY;
    if (mode.kind === 'reset') this.reset();
    for (const wake of [...this.#wakes]) wake();
  }

  reset(): void {
    if (this.#isReset) return;
    this.#isReset = true;
    this.#client.resetAndDestroy();
    this.#upstream.destroy();
    for (const wake of [...this.#wakes]) wake();
  }

  async #carry(from: Socket, to: Socket, areAnswers: boolean): Promise<void> {
    try {
      for await (const chunk of from) {
        let bytes = chunk as Buffer;
        while (bytes.length > 0 && !this.#isReset) {
          const part = await this.#admit(bytes.length, areAnswers);
          if (!to.write(bytes.subarray(0, part)) && !to.destroyed) await this.#drained(to);
          bytes = bytes.subarray(part);
          if (areAnswers) await this.#countAnswers(part);
        }
        if (this.#isReset) return;
      }
      // The end of a connection is held back too while the network hangs.
      while (this.#mode.kind === 'hang' && !this.#isReset) await this.#changed();
      if (!this.#isReset) to.end();
    } catch {
      this.reset();
    }
  }

  /** Waits until bytes may pass; resolves with how many of `length` may pass now. */
  async #admit(length: number, areAnswers: boolean): Promise<number> {
    while (!this.#isReset) {
      const mode = this.#mode;
      if (mode.kind === 'hang') {
        await this.#changed();
        continue;
      }
      const left = areAnswers ? Math.min(length, this.#answerBytesLeft) : length;
      if (mode.kind !== 'slow') return left;
      const part = Math.min(left, Math.max(1, Math.ceil(mode.bytesPerSecond / SLICES_PER_SECOND)));
      const pauseMs = mode.delayMs + (part / mode.bytesPerSecond) * 1000;
      if (!(await this.#changed(pauseMs))) return part;
    }
    return length;
  }

  async #countAnswers(bytes: number): Promise<void> {
    this.#onAnswer(bytes);
    this.#answerBytesLeft -= bytes;
    if (this.#answerBytesLeft <= 0 && !(await this.#changed(this.#cutPauseMs))) this.reset();
  }

  /** Waits for another mode, no longer than `withinMs`; resolves with whether it came. */
  #changed(withinMs?: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (hasCome: boolean): void => {
        clearTimeout(timer);
        this.#wakes.delete(wake);
        resolve(hasCome);
      };
      const wake = (): void => end(true);
      const timer = withinMs === undefined ? undefined : setTimeout(() => end(false), withinMs);
      this.#wakes.add(wake);
    });
  }

  #drained(to: Socket): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        to.off('drain', end);
        to.off('close', end);
        resolve();
      };
      to.on('drain', end);
      to.on('close', end);
    });
  }
}

const SLICES_PER_SECOND = 20;
