/** Random names. */

/** Twice as many digits as bytes, from the runtime's source of secrets: nobody else has the same. */
export function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
