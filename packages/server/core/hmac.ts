/** HMAC-SHA-256. */

/**
 * The HMAC of `text`, to be taken by `digest`. The runtime (Bun 1.4.5) throws here for a fault that other code left on its thread,
 * such as the import of a public key whose point is off the curve. It forgets the fault by that, so a second attempt is about
 * this key alone.
 */
export function hmacSha256(key: string | Uint8Array, text: string): Bun.CryptoHasher {
  try {
    return new Bun.CryptoHasher('sha256', key).update(text);
  } catch {
    return new Bun.CryptoHasher('sha256', key).update(text);
  }
}
