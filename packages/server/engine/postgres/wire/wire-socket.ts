/** The socket to PostgreSQL: TCP, or TLS over it as the address asks. */
import { readFileSync } from 'node:fs';
import { createConnection, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { PostgresAddress, PostgresHost } from '../../address.ts';
import { MessageWriter } from './wire-messages.ts';

const KEEP_ALIVE_MS = 30_000;
const SPEAKS_TLS = 'S';

/**
 * Resolves with an open socket, encrypted if the address asks for it. Calls `onMade` with every socket, so that its owner can
 * destroy it at any time. Rejects with the system's error.
 */
export async function openSocket(
  { host, port }: PostgresHost,
  address: PostgresAddress,
  onMade: (socket: Socket) => void,
): Promise<Socket> {
  const { tls } = address;
  const plain = createConnection({
    host,
    port,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_MS,
  });
  onMade(plain);
  await settled(plain, 'connect');
  if (tls === 'disable') return plain;
  plain.write(new MessageWriter().sslRequest().take());
  const answer = await firstBytes(plain);
  // Exactly one byte: anything more was sent before the encryption, and anybody may have sent it.
  if (answer.length !== 1) throw closed('the server answered the request for TLS with something else');
  if (String.fromCharCode(answer[0] as number) !== SPEAKS_TLS) {
    if (tls === 'prefer') return plain;
    throw closed('the server does not speak TLS');
  }
  const encrypted = connectTls({ socket: plain, ...tlsOptions(host, address) });
  onMade(encrypted);
  await settled(encrypted, 'secureConnect');
  return encrypted;
}

function tlsOptions(host: string, { tls, tlsRootFile }: PostgresAddress) {
  // As in PostgreSQL's own tools: `prefer` and `require` encrypt, `verify-full` also verifies the server.
  if (tls !== 'verify-full') return { rejectUnauthorized: false };
  const ca = tlsRootFile === undefined ? {} : { ca: readFileSync(tlsRootFile) };
  return { rejectUnauthorized: true, host, ...(isIP(host) === 0 ? { servername: host } : {}), ...ca };
}

function settled(socket: Socket, event: 'connect' | 'secureConnect'): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once(event, () => resolve());
    socket.once('error', reject);
    socket.once('close', () => reject(closed('the connection was closed')));
  });
}

function firstBytes(socket: Socket): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    socket.once('data', (bytes) => resolve(bytes as Uint8Array));
    socket.once('error', reject);
    socket.once('close', () => reject(closed('the connection was closed')));
  });
}

/** The error of a connection that cannot be used any more. */
export const closed = (message: string): Error =>
  Object.assign(new Error(message), { code: 'CONNECTION_CLOSED' });
