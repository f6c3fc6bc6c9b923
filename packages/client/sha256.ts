/** SHA-256 (FIPS 180-4) piece by piece, which WebCrypto cannot; in TypeScript, for runtimes and pages without `crypto.subtle`. */

/** A digest being made. `update` any number of times, then `digest` once; `data` may be reused after `update` returns. */
export interface Sha256 {
  update(data: Uint8Array): void;
  /** The 32 bytes of the digest. */
  digest(): Uint8Array;
}

const BLOCK_BYTES = 64;
const ROUNDS = 64;
/** The offset of the 8-byte bit length in the last block. */
const LENGTH_OFFSET = BLOCK_BYTES - 8;

/** The first `count` primes: the constants below are made from them, as the standard defines them. */
function firstPrimes(count: number): number[] {
  const primes: number[] = [];
  for (let candidate = 2; primes.length < count; candidate += 1) {
    if (primes.every((prime) => candidate % prime !== 0)) primes.push(candidate);
  }
  return primes;
}

/** floor(n^(1/root) × 2^32) mod 2^32, exact: the first 32 fraction bits of a root. */
function fractionBits(n: number, root: 2 | 3): number {
  const target = BigInt(n) << BigInt(32 * root);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(root) <= target) low = middle;
    else high = middle;
  }
  return Number(BigInt.asIntN(32, low));
}

/** Filled by the first digest: a program that hashes by its platform need not compute them when it starts. */
const ROUND_CONSTANTS = new Int32Array(ROUNDS);
const INITIAL_STATE = new Int32Array(8);

function fillConstants(): void {
  ROUND_CONSTANTS.set(firstPrimes(ROUNDS).map((prime) => fractionBits(prime, 3)));
  INITIAL_STATE.set(firstPrimes(8).map((prime) => fractionBits(prime, 2)));
}

/** Starts a digest. Memory: a few hundred bytes, whatever the length. */
export function createSha256(): Sha256 {
  if (INITIAL_STATE[0] === 0) fillConstants();
  const state = Int32Array.from(INITIAL_STATE);
  const schedule = new Int32Array(ROUNDS);
  const pending = new Uint8Array(BLOCK_BYTES);
  let pendingBytes = 0;
  let totalBytes = 0;
  let finished = false;

  function update(data: Uint8Array): void {
    if (finished) throw new Error('this SHA-256 was already finished: start another one');
    totalBytes += data.length;
    let offset = 0;
    if (pendingBytes > 0) {
      offset = Math.min(BLOCK_BYTES - pendingBytes, data.length);
      pending.set(data.subarray(0, offset), pendingBytes);
      pendingBytes += offset;
      if (pendingBytes < BLOCK_BYTES) return;
      compress(state, schedule, pending, 0);
    }
    for (; offset + BLOCK_BYTES <= data.length; offset += BLOCK_BYTES)
      compress(state, schedule, data, offset);
    pending.set(data.subarray(offset), 0);
    pendingBytes = data.length - offset;
  }

  function digest(): Uint8Array {
    if (finished) throw new Error('this SHA-256 was already finished: start another one');
    finished = true;
    pending.fill(0, pendingBytes);
    pending[pendingBytes] = 0x80;
    if (pendingBytes >= LENGTH_OFFSET) {
      compress(state, schedule, pending, 0);
      pending.fill(0);
    }
    const view = new DataView(pending.buffer);
    view.setBigUint64(LENGTH_OFFSET, BigInt(totalBytes) * 8n);
    compress(state, schedule, pending, 0);
    const result = new DataView(new ArrayBuffer(32));
    state.forEach((word, index) => {
      result.setInt32(index * 4, word);
    });
    return new Uint8Array(result.buffer);
  }

  return { update, digest };
}

/** One block of the standard's hash computation. `| 0` keeps every word a 32-bit integer, which engines make fast. */
function compress(state: Int32Array, w: Int32Array, data: Uint8Array, offset: number): void {
  for (let t = 0; t < 16; t += 1) {
    const at = offset + t * 4;
    w[t] =
      ((data[at] as number) << 24) |
      ((data[at + 1] as number) << 16) |
      ((data[at + 2] as number) << 8) |
      (data[at + 3] as number);
  }
  for (let t = 16; t < ROUNDS; t += 1) {
    const x = w[t - 15] as number;
    const y = w[t - 2] as number;
    const sigma0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const sigma1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    w[t] = (sigma0 + sigma1 + (w[t - 16] as number) + (w[t - 7] as number)) | 0;
  }
  // Word by word: destructuring a typed array runs its iterator, which costs more than the 64 rounds together.
  let a = state[0] as number;
  let b = state[1] as number;
  let c = state[2] as number;
  let d = state[3] as number;
  let e = state[4] as number;
  let f = state[5] as number;
  let g = state[6] as number;
  let h = state[7] as number;
  for (let t = 0; t < ROUNDS; t += 1) {
    const sum1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const choice = (e & f) ^ (~e & g);
    const first = (h + sum1 + choice + (ROUND_CONSTANTS[t] as number) + (w[t] as number)) | 0;
    const sum0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + sum0 + majority) | 0;
  }
  state[0] = (state[0] as number) + a;
  state[1] = (state[1] as number) + b;
  state[2] = (state[2] as number) + c;
  state[3] = (state[3] as number) + d;
  state[4] = (state[4] as number) + e;
  state[5] = (state[5] as number) + f;
  state[6] = (state[6] as number) + g;
  state[7] = (state[7] as number) + h;
}
