/** Weak Ed25519 public keys: anyone can forge a signature that verifies under a point of small order. Pure. */

const POINT_BYTES = 32;
/** The prime of the field, 2^255 − 19. */
const MODULUS = 2n ** 255n - 19n;
/** The y of the eight points of small order, each with either sign. */
const SMALL_ORDER_Y: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  MODULUS - 1n,
  2707385501144840649318225287225658788936804267575313519463743609750303402022n,
  55188659117513257062467267217118295137698188065244968500265048394206261417927n,
]);

/** Why the key must not be registered; undefined if no weakness is known. */
export function findEdwardsWeakness(key: Uint8Array): string | undefined {
  if (key.length !== POINT_BYTES) return `is an Ed25519 key of ${key.length} bytes; it has ${POINT_BYTES}`;
  let y = 0n;
  for (const [index, byte] of key.entries()) {
    y |= BigInt(index === POINT_BYTES - 1 ? byte & ~0x80 : byte) << BigInt(8 * index); // without the sign bit of x
  }
  if (y >= MODULUS) return 'is an Ed25519 key that is not written as it has to be; make a new key';
  if (SMALL_ORDER_Y.has(y)) return 'is an Ed25519 key of small order; make a new key';
  return undefined;
}
