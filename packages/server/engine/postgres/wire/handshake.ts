/** The start of a session: who we are, and the proof. */
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto';
import type { PostgresAddress } from '../../address.ts';
import { NO_PASSWORD, NOT_BOUND } from '../failure.ts';
import { type Message, MessageWriter } from './wire-messages.ts';

/** The client's side of SCRAM-SHA-256 (RFC 5802, RFC 7677): the password is proven and never sent. Pure. */
const SCRAM_MECHANISM = 'SCRAM-SHA-256';
/** the same, with the server's certificate in the proof */
const SCRAM_MECHANISM_BOUND = 'SCRAM-SHA-256-PLUS';

/** none: we cannot bind the proof to a certificate; possible: we can, but the server does not offer it; else the hash of the certificate */
type Binding = 'none' | 'possible' | Uint8Array;

const headOf = (binding: Binding): string => {
  if (typeof binding !== 'string') return 'p=tls-server-end-point,,';
  return binding === 'possible' ? 'y,,' : 'n,,';
};

interface ScramProof {
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

/** Kinds of an authentication message. */
const KIND = { ok: 0, cleartext: 3, md5: 5, sasl: 10, saslContinue: 11, saslFinal: 12 } as const;

export class Handshake {
  readonly #address: PostgresAddress;
  readonly #kept: string | Error | undefined;
  readonly #nonce = randomBytes(18).toString('base64');
  #hasBegunScram = false;
  #proof: ScramProof | undefined;
  #isServerProven = false;
  #isDone = false;
  #endPoint: Uint8Array | undefined;
  #binding: Binding = 'none';

  /** `kept`: the password of the password file, or why there is none; it counts only if the server asks for one. */
  constructor(address: PostgresAddress, kept?: string | Error) {
    this.#address = address;
    this.#kept = kept;
  }

  /** `endPoint`: the hash of the certificate that the server has shown (wire-socket.ts), if it has */
  begin(endPoint?: Uint8Array): Uint8Array {
    this.#endPoint = this.#address.channelBinding === 'disable' ? undefined : endPoint;
    const { user, database, applicationName } = this.#address;
    const parameters = { user, database, client_encoding: 'UTF8', application_name: applicationName };
    return new MessageWriter().startup(parameters).take();
  }

  /** The answer to an authentication message, if any. @throws if the server cannot be trusted or understood */
  answer({ bytes, start, end }: Message): Uint8Array | undefined {
    const kind = bytes.readInt32BE(start);
    const rest = bytes.subarray(start + 4, end);
    const writer = new MessageWriter();
    if (kind === KIND.ok) {
      if (this.#hasBegunScram && !this.#isServerProven) throw new Error('the server left out its proof');
      this.#assertBound();
      this.#isDone = true;
      return undefined;
    }
    if (kind === KIND.cleartext || kind === KIND.md5) this.#assertBound();
    if (kind === KIND.cleartext) return writer.password(this.#password).take();
    if (kind === KIND.md5) return writer.password(this.#md5Of(rest)).take();
    if (kind === KIND.sasl) {
      const mechanism = this.#choose(rest.toString('latin1').split('\0'));
      this.#hasBegunScram = true;
      return writer.saslInitial(mechanism, beginScram(this.#nonce, this.#binding)).take();
    }
    if (kind === KIND.saslContinue) {
      this.#proof = proveScram(this.#password, this.#nonce, rest.toString('utf8'), this.#binding);
      return writer.saslResponse(this.#proof.message).take();
    }
    if (kind === KIND.saslFinal && this.#proof !== undefined) {
      checkServer(this.#proof, rest.toString('utf8'));
      this.#isServerProven = true;
      return undefined;
    }
    throw new Error('the server wants a way of authentication that is not supported: use scram-sha-256');
  }

  /** @throws when the server says that it is ready before the authentication has ended: it may have left out its proof */
  assertDone(): void {
    if (!this.#isDone) throw new Error('the server left out the end of the authentication');
  }

  #choose(offered: readonly string[]): string {
    if (this.#endPoint !== undefined && offered.includes(SCRAM_MECHANISM_BOUND)) {
      this.#binding = this.#endPoint;
      return SCRAM_MECHANISM_BOUND;
    }
    this.#assertBound();
    if (this.#endPoint !== undefined) this.#binding = 'possible';
    if (offered.includes(SCRAM_MECHANISM)) return SCRAM_MECHANISM;
    throw new Error(`the server wants a way of authentication other than ${SCRAM_MECHANISM}`);
  }

  /** @throws if the proof of the password must be bound to the server's certificate, and is not */
  #assertBound(): void {
    if (this.#address.channelBinding !== 'require' || typeof this.#binding !== 'string') return;
    throw Object.assign(
      new Error('channel_binding=require, and the server cannot bind the proof to its certificate'),
      {
        code: NOT_BOUND,
      },
    );
  }

  get #password(): string {
    const password = this.#address.password ?? this.#kept;
    if (password instanceof Error) throw password;
    if (password === undefined) {
      throw Object.assign(new Error('the server asks for a password, and none was given'), {
        code: NO_PASSWORD,
      });
    }
    return password;
  }

  #md5Of(salt: Uint8Array): string {
    const hash = (...parts: (string | Uint8Array)[]): string => {
      const digest = createHash('md5');
      for (const part of parts) digest.update(part);
      return digest.digest('hex');
    };
    return `md5${hash(hash(this.#password, this.#address.user), salt)}`;
  }
}
