/** A bare TCP connection: bytes out, bytes in, and how it ended. */
import { createConnection } from 'node:net';

export interface RawConnection {
  write(bytes: string | Uint8Array): void;
  /** ends our side only */
  halfClose(): void;
  destroy(): void;
  received(): string;
  isClosed(): boolean;
  /** resolves when `done` holds for what came so far, when the peer closed, or after `timeoutMs` */
  wait(done: (received: string) => boolean, timeoutMs: number): Promise<string>;
  /** resolves true when the peer closed within `timeoutMs` */
  closed(timeoutMs: number): Promise<boolean>;
}

export function openConnection(port: number): Promise<RawConnection> {
  const socket = createConnection({ port, host: '127.0.0.1', allowHalfOpen: true });
  let text = '';
  let isClosed = false;
  let notify: () => void = () => {};
  const changed = (): Promise<void> =>
    new Promise((resolve) => {
      notify = resolve;
    });
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    notify();
  });
  const close = (): void => {
    isClosed = true;
    notify();
  };
  socket.on('end', close);
  socket.on('close', close);
  socket.on('error', close);
  const wait: RawConnection['wait'] = async (done, timeoutMs) => {
    const deadline = Date.now() + timeoutMs;
    while (!isClosed && !done(text)) {
      const left = deadline - Date.now();
      if (left <= 0) break;
      await Promise.race([changed(), Bun.sleep(left)]);
    }
    return text;
  };
  const connection: RawConnection = {
    write: (bytes) => void socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    halfClose: () => void socket.end(),
    destroy: () => void socket.destroy(),
    received: () => text,
    isClosed: () => isClosed,
    wait,
    async closed(timeoutMs) {
      await wait(() => false, timeoutMs);
      return isClosed;
    },
  };
  return new Promise((resolve, reject) => {
    socket.once('connect', () => resolve(connection));
    socket.once('error', reject);
  });
}

/** An answer that is sure to come is waited for so long, on any machine. */
export const ANSWER_MS_MAX = 180_000;

/**
 * Sends `bytes` on a fresh connection and gives what comes back within `timeoutMs`, up to the peer's close; with `answersMin`,
 * within `timeoutMs` after that many answers have begun.
 */
export async function exchange(
  port: number,
  bytes: string | Uint8Array,
  timeoutMs = 400,
  answersMin = 0,
): Promise<string> {
  const connection = await openConnection(port);
  connection.write(bytes);
  await connection.wait((text) => statusesOf(text).length >= answersMin, ANSWER_MS_MAX);
  const received = await connection.wait(() => false, timeoutMs);
  connection.destroy();
  return received;
}

/** Status codes of the answers in a stream, in order. */
export function statusesOf(received: string): number[] {
  return [...received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map((match) => Number(match[1]));
}
