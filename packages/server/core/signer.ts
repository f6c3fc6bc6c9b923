/** Signs upload URLs and cursors: HMAC-SHA-256 under a key for each purpose, all drawn from one secret kept with the data. */
import type { Signer } from './ports.ts';

type Purpose = Parameters<Signer['sign']>[0];

export function createSigner(secret: Uint8Array): Signer {
  const keys: Readonly<Record<Purpose, Uint8Array>> = {
    'upload-url': hmacSha256(secret, 'holdfast v1 upload-url'),
    cursor: hmacSha256(secret, 'holdfast v1 cursor'),
  };
  const sign = (purpose: Purpose, message: string): Uint8Array => hmacSha256(keys[purpose], message);
  return {
    sign,
    verify: (purpose, message, signature) => areEqual(signature, sign(purpose, message)),
  };
}

const hmacSha256 = (key: Uint8Array, message: string): Uint8Array =>
  new Uint8Array(new Bun.CryptoHasher('sha256', key).update(message).digest().buffer);

/** Takes as long wherever the first difference is, so that nobody learns a signature byte by byte. */
function areEqual(given: Uint8Array, expected: Uint8Array): boolean {
  let difference = given.length ^ expected.length;
  for (const [index, byte] of expected.entries()) difference |= byte ^ (given[index] ?? 0);
  return difference === 0;
}
