/** The socket to PostgreSQL: TCP, or TLS over it as the address asks. */
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { createConnection, isIP, type Socket } from 'node:net';
import { connect as connectTls, TLSSocket } from 'node:tls';
import { codeOf } from '../../../error-code.ts';
import { formatAuthority, type PostgresAddress, type PostgresHost } from '../../address.ts';
import { readPlainFile, readSecret } from '../../given-file.ts';
import { unusableFile } from '../failure.ts';
import { MessageWriter } from './wire-messages.ts';

/** The hash of a signature, by the name of its algorithm (an object identifier, hex of DER). Older hashes count as SHA-256. */
const HASHES: Readonly<Record<string, string>> = {
  '2a864886f70d010104': 'sha256',
  '2a864886f70d010105': 'sha256',
  '2a8648ce3d0401': 'sha256',
  '2a864886f70d01010b': 'sha256',
  '2a864886f70d01010c': 'sha384',
  '2a864886f70d01010d': 'sha512',
  '2a8648ce3d040302': 'sha256',
  '2a8648ce3d040303': 'sha384',
  '2a8648ce3d040304': 'sha512',
};

/** The hash of a certificate in DER; undefined if RFC 5929 defines none for its signature. */
function endPointOf(certificate: Uint8Array): Uint8Array | undefined {
  const whole = elementAt(certificate, 0);
  const signed = whole && elementAt(certificate, whole.start);
  const algorithm = signed && elementAt(certificate, signed.end);
  const name = algorithm && elementAt(certificate, algorithm.start);
  if (name === undefined) return undefined;
  const hash = HASHES[Buffer.from(certificate.subarray(name.start, name.end)).toString('hex')];
  return hash === undefined ? undefined : createHash(hash).update(certificate).digest();
}

/** The range of the content of the DER element that begins at `at`. */
function elementAt(bytes: Uint8Array, at: number): { start: number; end: number } | undefined {
  const first = bytes[at + 1];
  if (first === undefined) return undefined;
  if (first < 0x80) return { start: at + 2, end: at + 2 + first };
  const digits = first & 0x7f;
  let length = 0;
  for (let index = 0; index < digits; index += 1) length = length * 256 + (bytes[at + 2 + index] ?? 0);
  const start = at + 2 + digits;
  return start + length > bytes.length ? undefined : { start, end: start + length };
}

const SPEAKS_TLS = 'S';

/** An open socket, encrypted if the address asks for it. `onMade`: every socket, for its owner to destroy. Rejects as the system. */
export async function openSocket(
  { host, port }: PostgresHost,
  address: PostgresAddress,
  onMade: (socket: Socket) => void,
): Promise<Socket> {
  const { tls } = address;
  const isLocal = host.startsWith('/');
  const plain = isLocal
    ? createConnection({ path: formatAuthority(host, port) })
    : createConnection({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 });
  onMade(plain);
  await settled(plain, 'connect');
  if (tls === 'disable' || isLocal) return plain;
  const options = await tlsOptions(host, address);
  plain.write(new MessageWriter().sslRequest().take());
  const answer = await firstBytes(plain);
  // Exactly one byte: anything more was sent before the encryption, and anybody may have sent it.
  if (answer.length !== 1) throw closed('the server answered the request for TLS with something else');
  if (String.fromCharCode(answer[0] as number) !== SPEAKS_TLS) {
    if (tls === 'prefer') return plain;
    throw closed('the server does not speak TLS');
  }
  const encrypted = connectTls({ socket: plain, ...options });
  onMade(encrypted);
  await settled(encrypted, 'secureConnect');
  return encrypted;
}

/** The hash that binds a proof to the certificate of the socket's other end; undefined: it is not encrypted, or has none. */
export function endPointOfSocket(socket: Socket): Uint8Array | undefined {
  if (!(socket instanceof TLSSocket)) return undefined;
  const { raw } = socket.getPeerCertificate(true);
  return raw === undefined ? undefined : endPointOf(raw);
}

async function tlsOptions(host: string, { tls, tlsRootFile, tlsOwn }: PostgresAddress) {
  const own = tlsOwn === undefined ? {} : await readOwn(tlsOwn);
  // As in PostgreSQL's own tools: `prefer` and `require` encrypt, `verify-ca` asks the authority, `verify-full` also for the host's name.
  if (tls !== 'verify-full' && tls !== 'verify-ca') return { ...own, rejectUnauthorized: false };
  const ca = tlsRootFile === undefined ? {} : { ca: await readNamed('sslrootcert', tlsRootFile) };
  const name = { host, ...(isIP(host) === 0 ? { servername: host } : {}) };
  const anyName = tls === 'verify-ca' ? { checkServerIdentity: () => undefined } : {};
  return { rejectUnauthorized: true, ...name, ...ca, ...own, ...anyName };
}

async function readOwn({ certificateFile, keyFile }: NonNullable<PostgresAddress['tlsOwn']>) {
  const cert = await readNamed('sslcert', certificateFile);
  const key = await readNamed('sslkey', keyFile, () => readSecret('the key of sslkey,', keyFile));
  assertPair(cert, key);
  return { cert, key };
}

/** The runtime shows no certificate where it finds none, and tells a wrong key in the code of its library. */
function assertPair(cert: string, key: string): void {
  let isPair: boolean;
  try {
    isPair = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch {
    throw unusableFile(
      'sslcert must name a certificate, and sslkey its key without a passphrase, both in PEM',
    );
  }
  if (!isPair)
    throw unusableFile('the key of sslkey is not that of the certificate of sslcert: check both paths');
}

async function readNamed(
  parameter: string,
  path: string,
  read: () => Promise<string | undefined> = () => readPlainFile(`the file of ${parameter},`, path),
): Promise<string> {
  try {
    const text = await read();
    if (text !== undefined) return text;
  } catch (error) {
    if (codeOf(error) === undefined) throw unusableFile((error as Error).message);
  }
  throw unusableFile(`the file that ${parameter} names cannot be read: check its path and rights`);
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
