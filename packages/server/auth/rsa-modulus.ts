/** RSA moduli that are easy to factor: a prime and a square. Anyone could forge signatures with such a key. */
import { checkPrime } from 'node:crypto';
import { promisify } from 'node:util';

/** One round detects nearly all primes. It takes 10 ms for 2048 bits and 150 ms for 8192, in another thread. */
const ROUNDS = { checks: 1 };

const isPrime = promisify(checkPrime) as (candidate: bigint, options: typeof ROUNDS) => Promise<boolean>;

/** `modulus`: base64url */
export async function hasKnownFactors(modulus: string): Promise<boolean> {
  const value = BigInt(`0x${Buffer.from(modulus, 'base64url').toString('hex')}`);
  return isSquare(value) || isPrime(value, ROUNDS);
}

function isSquare(value: bigint): boolean {
  // Newton's method descends to the root from a power of 2 above it.
  let root = 1n << BigInt(Math.ceil(value.toString(2).length / 2));
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root * root === value;
    root = next;
  }
}
