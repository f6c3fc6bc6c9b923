/** Unsigned varints as CAR and CID use them: little-endian groups of 7 bits, shortest form only. */

/** 2^53 - 1 needs 8 bytes; anything longer is no length this code could use. */
const VARINT_BYTES_MAX = 8;

const GROUP = 0x80;

/** Throws RangeError unless `value` is an integer from 0 to 2^53 - 1. */
export function encodeVarint(value: number): Uint8Array {
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new RangeError(`a varint holds an integer from 0 to ${Number.MAX_SAFE_INTEGER}, not ${value}`);
  }
  const bytes: number[] = [];
  let rest = value;
  while (rest >= GROUP) {
    bytes.push((rest % GROUP) + GROUP);
    rest = Math.floor(rest / GROUP);
  }
  bytes.push(rest);
  return Uint8Array.from(bytes);
}

/** Takes one varint byte by byte. */
export class VarintParser {
  #value = 0;
  #count = 0;

  /** How many bytes were taken. */
  get byteCount(): number {
    return this.#count;
  }

  /** The value once `byte` was its last, else undefined. Throws RangeError beyond 8 bytes or 2^53 - 1, or if not shortest. */
  push(byte: number): number | undefined {
    this.#count += 1;
    if (this.#count > VARINT_BYTES_MAX)
      throw new RangeError(`a varint is longer than ${VARINT_BYTES_MAX} bytes`);
    this.#value += (byte % GROUP) * GROUP ** (this.#count - 1);
    if (this.#value > Number.MAX_SAFE_INTEGER) {
      throw new RangeError(`a varint is greater than ${Number.MAX_SAFE_INTEGER}`);
    }
    if (byte >= GROUP) return undefined;
    if (byte === 0 && this.#count > 1) throw new RangeError('a varint has needless zero bytes at its end');
    return this.#value;
  }
}
