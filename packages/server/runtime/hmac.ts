/**
 * Why: the runtime throws in the constructor of an HMAC for a fault that other code left on its thread, such as the import of a public
 * key whose point is off the curve. It forgets the fault by that, so a second attempt is about this key alone.
 * Since: Bun 1.4.5 or earlier.
 * Without it: a request fails that has to do with no such key.
 * Goes when: hmac.test.ts passes with one attempt.
 */

/** The HMAC-SHA-256 of `text`, to be taken by `digest`. */
export function hmacSha256(key: string | Uint8Array, text: string): Bun.CryptoHasher {
  try {
    return new Bun.CryptoHasher('sha256', key).update(text);
  } catch {
    return new Bun.CryptoHasher('sha256', key).update(text);
  }
}
