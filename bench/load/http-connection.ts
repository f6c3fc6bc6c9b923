/**
 * One keep-alive HTTP/1.1 connection, one request at a time, on a raw socket: enough HTTP for load and no more, because
 * what the loader spends is taken from what it can measure. Every socket error ends the connection's flow with a throw.
 */
import type { Socket } from 'bun';

export interface HttpAnswer {
  readonly status: number;
  /** the status line and header lines, latin1 */
  readonly head: string;
  /** kept only up to KEPT_BODY_BYTES_MAX; longer bodies are counted and dropped */
  readonly body: Buffer;
  readonly bodyBytes: number;
}

const KEPT_BODY_BYTES_MAX = 1024 * 1024;
const HEAD_END = Buffer.from('\r\n\r\n');

export class HttpConnection {
  #socket: Socket | undefined;
  #resolve: ((answer: HttpAnswer) => void) | undefined;
  #reject: ((error: Error) => void) | undefined;
  #drained: (() => void) | undefined;
  #failure: Error | undefined;
  #received: Buffer | undefined;
  #head = '';
  #bodyLength = -1;
  #bodyBytes = 0;
  #chunks: Buffer[] = [];

  static async open(port: number): Promise<HttpConnection> {
    const connection = new HttpConnection();
    connection.#socket = await Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: {
        data: (_socket, data) => connection.#onData(data),
        drain: () => connection.#drained?.(),
        close: () => connection.#fail(new Error('the server closed the connection')),
        error: (_socket, error) => connection.#fail(error),
      },
    });
    return connection;
  }

  /** Sends the parts in order, waiting for the socket to drain where it must, and resolves with the answer. */
  request(parts: readonly Uint8Array[]): Promise<HttpAnswer> {
    const answer = this.answer();
    for (let index = 0; index < parts.length; index++) {
      const part = parts[index] as Uint8Array;
      const written = Math.max(0, this.#socket?.write(part) ?? 0);
      if (written < part.length)
        return this.#sendRest([part.subarray(written), ...parts.slice(index + 1)], answer);
    }
    return answer;
  }

  /** The next answer; for callers that send the body themselves with `send`. */
  answer(): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure);
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  async send(part: Uint8Array): Promise<void> {
    let rest = part;
    while (rest.length > 0) {
      if (this.#failure !== undefined) throw this.#failure;
      const written = this.#socket?.write(rest) ?? -1;
      if (written < 0) throw this.#failure ?? new Error('the socket took no more bytes');
      rest = rest.subarray(written);
      if (rest.length > 0) await new Promise<void>((resolve) => (this.#drained = resolve));
    }
  }

  close(): void {
    this.#socket?.end();
  }

  async #sendRest(parts: readonly Uint8Array[], answer: Promise<HttpAnswer>): Promise<HttpAnswer> {
    answer.catch(() => {}); // reported by the throw of `send` or by the caller's await, whichever comes first
    for (const part of parts) await this.send(part);
    return answer;
  }

  #onData(data: Buffer): void {
    if (this.#bodyLength < 0) {
      const received = this.#received === undefined ? data : Buffer.concat([this.#received, data]);
      const end = received.indexOf(HEAD_END);
      if (end < 0) {
        this.#received = received === data ? Buffer.from(data) : received;
        return;
      }
      this.#received = undefined;
      this.#head = received.toString('latin1', 0, end);
      const length = findBodyLength(this.#head);
      if (length === undefined) {
        this.#fail(new Error(`The loader reads no chunked answers, got:\n${this.#head}`));
        return;
      }
      this.#bodyLength = length;
      this.#takeBody(received.subarray(end + 4));
    } else {
      this.#takeBody(data);
    }
  }

  #takeBody(data: Buffer): void {
    this.#bodyBytes += data.length;
    if (this.#bodyBytes <= KEPT_BODY_BYTES_MAX) {
      this.#chunks.push(Buffer.from(data)); // a copy: the socket may reuse its buffer
    }
    if (this.#bodyBytes < this.#bodyLength) return;
    const body = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks);
    const answer = {
      status: Number(this.#head.slice(9, 12)),
      head: this.#head,
      body,
      bodyBytes: this.#bodyBytes,
    };
    this.#bodyLength = -1;
    this.#bodyBytes = 0;
    this.#chunks = [];
    this.#resolve?.(answer);
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#reject?.(this.#failure);
    this.#drained?.();
  }
}

/** `undefined` when the head has no such header. */
export function findHeader(head: string, name: string): string | undefined {
  return new RegExp(`^${name}:[ \\t]*(.*?)[ \\t]*\\r?$`, 'im').exec(head)?.[1];
}

/** `undefined` when the body is chunked. */
function findBodyLength(head: string): number | undefined {
  const length = /\ncontent-length:[ \t]*(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return Number(length);
  return /\ntransfer-encoding:/i.test(head) ? undefined : 0;
}
