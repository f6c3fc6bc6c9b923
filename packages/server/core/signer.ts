/** Signs upload URLs and cursors: HMAC-SHA-256 under a key for each purpose, all drawn from one secret kept with the data. */
import { hmacSha256 } from '../runtime/hmac.ts';
import type { Clock, Signer, SigningPurpose } from './ports.ts';
import { formatSecrets, type SigningSecret, type SigningSecrets } from './signing-secrets.ts';

export function createSigner(secret: Uint8Array): Signer {
  const keys: Readonly<Record<SigningPurpose, Uint8Array>> = {
    'upload-url': hmac(secret, 'holdfast v1 upload-url'),
    'upload-holder': hmac(secret, 'holdfast v1 upload-holder'),
    cursor: hmac(secret, 'holdfast v1 cursor'),
  };
  const sign = (purpose: SigningPurpose, message: string): Uint8Array => hmac(keys[purpose], message);
  return {
    sign,
    verify: (purpose, message, signature) => areEqual(signature, sign(purpose, message)),
  };
}

interface SigningPart extends SigningSecret {
  readonly signer: Signer;
}

/** Signs with the secret whose time has come, and verifies with all whose time is not over. */
export class RotatingSigner implements Signer {
  readonly #clock: Clock;
  /** newest first */
  #parts: readonly SigningPart[] = [];
  #taken: Uint8Array | undefined;

  constructor(secrets: SigningSecrets, clock: Clock) {
    this.#clock = clock;
    this.take(secrets);
  }

  take(secrets: SigningSecrets): void {
    const taken = formatSecrets(secrets);
    if (this.#taken !== undefined && areEqual(taken, this.#taken)) return;
    this.#taken = taken;
    this.#parts = secrets.map((each) => ({ ...each, signer: createSigner(each.secret) })).reverse();
  }

  sign(purpose: SigningPurpose, message: string): Uint8Array {
    const now = this.#clock.now();
    const signing = this.#parts.find(({ signsFromAt }) => signsFromAt <= now) ?? this.#parts.at(-1);
    return (signing as SigningPart).signer.sign(purpose, message);
  }

  verify(purpose: SigningPurpose, message: string, signature: Uint8Array): boolean {
    const now = this.#clock.now();
    return this.#parts.some(
      ({ signer, verifiesUntilAt }) =>
        (verifiesUntilAt === null || now < verifiesUntilAt) && signer.verify(purpose, message, signature),
    );
  }
}

const hmac = (key: Uint8Array, message: string): Uint8Array =>
  new Uint8Array(hmacSha256(key, message).digest().buffer);

/** Takes as long wherever the first difference is, so that nobody learns a signature byte by byte. */
function areEqual(given: Uint8Array, expected: Uint8Array): boolean {
  let difference = given.length ^ expected.length;
  for (const [index, byte] of expected.entries()) difference |= byte ^ (given[index] ?? 0);
  return difference === 0;
}

/** 64 hexadecimal digits */
export function sha256Hex(data: Uint8Array | string): string {
  return Bun.SHA256.hash(data as string, 'hex');
}

/** 32 bytes */
export function sha256(data: Uint8Array | string): Uint8Array {
  return new Uint8Array(new Bun.CryptoHasher('sha256').update(data).digest().buffer);
}
