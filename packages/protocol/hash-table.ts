/** Hashes that were met, each perhaps with a small number, in 16 bytes: sharded open-addressing tables. 136 bits tell them apart. */
import type { Hash } from './hash.ts';

/** 4 Mi hashes: about 128 MiB of tables without numbers, 160 MiB with. */
export const HASH_TABLE_MAX = 4_194_304;

/** Words of 32 bits that tell a hash from the others of its shard. */
const KEY_WORDS = 4;

interface Shard {
  slots: Uint32Array;
  count: number;
}

/** `numbers`: each hash has one, 0 to 2^32 - 1; otherwise it is a set. */
export class HashTable {
  readonly #words: number;
  readonly #shards: Shard[];
  #size = 0;

  constructor(kind: 'set' | 'numbers' = 'set') {
    this.#words = kind === 'set' ? KEY_WORDS : KEY_WORDS + 1;
    // One for each value of the first two digits.
    this.#shards = Array.from({ length: 256 }, () => ({
      slots: new Uint32Array(16 * this.#words),
      count: 0,
    }));
  }

  get size(): number {
    return this.#size;
  }

  has(hash: Hash): boolean {
    return this.#find(this.#shardOf(hash).slots, readKey(hash)) >= 0;
  }

  /** Whether it was not there before. Throws RangeError beyond HASH_TABLE_MAX. */
  add(hash: Hash): boolean {
    const shard = this.#shardOf(hash);
    const at = this.#find(shard.slots, readKey(hash));
    if (at < 0) this.#insert(shard, ~at, key);
    return at < 0;
  }

  find(hash: Hash): number | undefined {
    const { slots } = this.#shardOf(hash);
    const at = this.#find(slots, readKey(hash));
    return at < 0 ? undefined : slots[at + KEY_WORDS];
  }

  /** Throws RangeError beyond HASH_TABLE_MAX. */
  set(hash: Hash, number: number): void {
    if (this.#words === KEY_WORDS) throw new TypeError('this table is a set');
    const shard = this.#shardOf(hash);
    const at = this.#find(shard.slots, readKey(hash));
    if (at >= 0) shard.slots[at + KEY_WORDS] = number;
    else this.#insert(shard, ~at, Uint32Array.of(...key, number));
  }

  #insert(shard: Shard, at: number, entry: Uint32Array): void {
    if (this.#size >= HASH_TABLE_MAX) throw new RangeError(`more than ${HASH_TABLE_MAX} hashes`);
    shard.slots.set(entry, at);
    shard.count += 1;
    this.#size += 1;
    // Above this share of filled slots a table doubles.
    if (shard.count > (shard.slots.length / this.#words) * 0.75) this.#grow(shard);
  }

  #shardOf(hash: Hash): Shard {
    return this.#shards[digitsAt(hash, 0, 2)] as Shard;
  }

  /** The word where the entry of `key` begins; of one that is not there the complement of where it belongs. */
  #find(slots: Uint32Array, key: Uint32Array): number {
    const words = this.#words;
    const mask = slots.length / words - 1;
    for (let slot = (key[0] as number) & mask; ; slot = (slot + 1) & mask) {
      const at = slot * words;
      let filled = 0;
      let other = 0;
      for (let word = 0; word < KEY_WORDS; word += 1) {
        const found = slots[at + word] as number;
        filled |= found;
        other |= found ^ (key[word] as number);
      }
      if (other === 0) return at;
      if (filled === 0) return ~at;
    }
  }

  #grow(shard: Shard): void {
    const old = shard.slots;
    const words = this.#words;
    shard.slots = new Uint32Array(old.length * 2);
    for (let at = 0; at < old.length; at += words) {
      let filled = 0;
      for (let word = at; word < at + KEY_WORDS; word += 1) filled |= old[word] as number;
      if (filled === 0) continue;
      const entry = old.subarray(at, at + words);
      shard.slots.set(entry, ~this.#find(shard.slots, entry));
    }
  }
}

/** Words of the hash that is looked up; no look lasts longer than a call. */
const key = new Uint32Array(KEY_WORDS);

/** 16 bytes that are not the shard's; all zero means an empty slot, so that one value is moved aside. */
function readKey(hash: Hash): Uint32Array {
  let isZero = true;
  for (let word = 0; word < KEY_WORDS; word += 1) {
    // The second half of the hash, eight digits for a word.
    const value = digitsAt(hash, 32 + word * 8, 8);
    key[word] = value;
    if (value !== 0) isZero = false;
  }
  if (isZero) key[0] = 1;
  return key;
}

/** Lowercase hexadecimal digits as a number, which has a sign if there are eight. */
function digitsAt(hash: Hash, start: number, count: number): number {
  let value = 0;
  for (let at = start; at < start + count; at += 1) {
    const code = hash.charCodeAt(at);
    value = (value << 4) | (code < 0x61 ? code - 0x30 : code - 0x61 + 10);
  }
  return value;
}
