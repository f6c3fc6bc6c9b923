/** The client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677): the password is proven and never sent. Pure. */
import { createHash, createHmac, pbkdf2Sync, timingSafeEqual } from 'node:crypto';

export const SCRAM_MECHANISM = 'SCRAM-SHA-256';
/** the same, with the server's certificate in the proof */
export const SCRAM_MECHANISM_BOUND = 'SCRAM-SHA-256-PLUS';

/** none: we cannot bind the proof to a certificate; possible: we can, but the server does not offer it; else the hash of the certificate */
export type Binding = 'none' | 'possible' | Uint8Array;

const headOf = (binding: Binding): string => {
  if (typeof binding !== 'string') return 'p=tls-server-end-point,,';
  return binding === 'possible' ? 'y,,' : 'n,,';
};

export interface ScramProof {
  readonly message: string;
  /** the server's answer, base64, if it knows the password too */
  readonly serverSignature: string;
}

/** PostgreSQL takes the user from the start of the connection, not from here. */
export const beginScram = (nonce: string, binding: Binding = 'none', user = ''): string =>
  `${headOf(binding)}${bareOf(nonce, user)}`;

const bareOf = (nonce: string, user: string): string => `n=${user},r=${nonce}`;

/** @throws when the server's challenge does not belong to our nonce */
export function proveScram(
  password: string,
  nonce: string,
  challenge: string,
  binding: Binding = 'none',
  user = '',
): ScramProof {
  const fields = fieldsOf(challenge);
  const serverNonce = fields.get('r') ?? '';
  const iterations = Number(fields.get('i'));
  const salt = Buffer.from(fields.get('s') ?? '', 'base64');
  const isChallenge = serverNonce.startsWith(nonce) && serverNonce.length > nonce.length && salt.length > 0;
  // A server that asks for more iterations is attacking: it wastes our time.
  if (!isChallenge || !Number.isInteger(iterations) || iterations < 1 || iterations > 1_000_000) {
    throw new Error('the server answered the authentication without a valid challenge');
  }
  const salted = pbkdf2Sync(password.normalize('NFKC'), salt, iterations, 32, 'sha256');
  const clientKey = hmac(salted, 'Client Key');
  const bound = Buffer.concat([
    Buffer.from(headOf(binding)),
    typeof binding === 'string' ? Buffer.alloc(0) : binding,
  ]);
  const withoutProof = `c=${bound.toString('base64')},r=${serverNonce}`;
  const signed = `${bareOf(nonce, user)},${challenge},${withoutProof}`;
  const signature = hmac(createHash('sha256').update(clientKey).digest(), signed);
  const proof = Buffer.from(clientKey.map((byte, index) => byte ^ (signature[index] as number)));
  return {
    message: `${withoutProof},p=${proof.toString('base64')}`,
    serverSignature: hmac(hmac(salted, 'Server Key'), signed).toString('base64'),
  };
}

/** @throws when the server does not know the password, so it is not the server it claims to be */
export function checkServer({ serverSignature }: ScramProof, answer: string): void {
  const given = Buffer.from(fieldsOf(answer).get('v') ?? '', 'base64');
  const expected = Buffer.from(serverSignature, 'base64');
  if (given.length === expected.length && timingSafeEqual(given, expected)) return;
  throw new Error('the server did not prove that it knows the password');
}

function fieldsOf(message: string): Map<string, string> {
  return new Map(message.split(',').map((field) => [field.slice(0, 1), field.slice(2)]));
}

const hmac = (key: Uint8Array, text: string): Buffer => createHmac('sha256', key).update(text).digest();
