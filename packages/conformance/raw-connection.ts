/** Bytes over a socket, for what no HTTP client would send. */
import { connect as connectTcp, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { RuleBroken } from './rule-broken.ts';

const CONNECT_TIMEOUT_MS = 10_000;

export interface RawAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

export interface RawConnection {
  /** Sends bytes as they are. Ignores a connection that the peer has closed. */
  write(bytes: string | Uint8Array): void;
  /** Everything received, latin1, once `until` holds, the peer closes, or `timeoutMs` is over. */
  read(timeoutMs: number, until?: (received: string) => boolean): Promise<string>;
  readonly isClosed: () => boolean;
  destroy(): void;
}

function openSocket(baseUrl: string): Promise<Socket> {
  const url = new URL(baseUrl);
  const port = Number(url.port) || (url.protocol === 'https:' ? 443 : 80);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return new Promise((resolve, reject) => {
    const socket =
      url.protocol === 'https:'
        ? connectTls({ host, port, servername: host }, () => resolve(socket))
        : connectTcp({ host, port }, () => resolve(socket));
    socket.setTimeout(CONNECT_TIMEOUT_MS, () =>
      reject(new Error(`no connection to ${url.host} within ${CONNECT_TIMEOUT_MS} ms`)),
    );
    socket.once('error', reject);
  });
}

export async function openRaw(baseUrl: string): Promise<RawConnection> {
  const socket = await openSocket(baseUrl);
  socket.setTimeout(0);
  let received = '';
  let closed = false;
  let notify = () => {};
  const note = () => notify();
  socket.on('data', (chunk: Buffer) => {
    received += chunk.toString('latin1');
    note();
  });
  const end = () => {
    closed = true;
    note();
  };
  socket.on('close', end).on('end', end).on('error', end);
  return {
    write(bytes) {
      if (!closed) socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes);
    },
    read(timeoutMs, until = () => false) {
      return new Promise((resolve) => {
        const timer = setTimeout(() => finish(), timeoutMs);
        const finish = () => {
          clearTimeout(timer);
          notify = () => {};
          resolve(received);
        };
        notify = () => {
          if (closed || until(received)) finish();
        };
        notify();
      });
    },
    isClosed: () => closed,
    destroy: () => socket.destroy(),
  };
}

/** Splits what was received into answers by Content-Length and chunks. `headOf` says which answers have no body. */
export function parseAnswers(received: string, headOnly: readonly boolean[] = []): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = received;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    const match = /^HTTP\/1\.[01] (\d{3})/.exec(rest);
    if (end === -1 || !match)
      throw new RuleBroken('well-formed HTTP/1.1 answers', JSON.stringify(rest.slice(0, 120)));
    const status = Number(match[1]);
    const lines = rest.slice(0, end).split('\r\n').slice(1);
    const headers = new Map(
      lines.map((line) => [
        line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 1).trim(),
      ]),
    );
    rest = rest.slice(end + 4);
    if (status < 200) continue;
    const bodyless = headOnly[answers.length] === true || status === 204 || status === 304;
    const [body, after] = bodyless ? ['', rest] : takeBody(rest, headers);
    answers.push({ status, headers, body });
    rest = after;
  }
  return answers;
}

function takeBody(rest: string, headers: ReadonlyMap<string, string>): [string, string] {
  if (/chunked/i.test(headers.get('transfer-encoding') ?? '')) return takeChunks(rest);
  const length = headers.get('content-length');
  if (length === undefined) return [rest, ''];
  return [rest.slice(0, Number(length)), rest.slice(Number(length))];
}

function takeChunks(text: string): [string, string] {
  let body = '';
  let rest = text;
  while (rest !== '') {
    const line = rest.indexOf('\r\n');
    const size = Number.parseInt(rest.slice(0, line), 16);
    if (line === -1 || Number.isNaN(size)) break;
    body += rest.slice(line + 2, line + 2 + size);
    rest = rest.slice(line + 2 + size + 2);
    if (size === 0) return [body, rest];
  }
  return [body, rest];
}

/** One request as bytes, one connection, its answers. */
export async function sendRaw(
  baseUrl: string,
  bytes: string | Uint8Array,
  timeoutMs = 3_000,
): Promise<{ received: string; closed: boolean }> {
  const connection = await openRaw(baseUrl);
  try {
    connection.write(bytes);
    const received = await connection.read(timeoutMs);
    return { received, closed: connection.isClosed() };
  } finally {
    connection.destroy();
  }
}
