/**
 * Hashes that were met, many of them in little memory, each perhaps with a small number: 16 bytes of each in open-addressing
 * tables, sharded so that growing copies only one of 256. 136 bits tell hashes apart as well as the whole does.
 */
import type { Hash } from './hash.ts';

/** 4 Mi hashes: about 128 MiB of tables without numbers, 160 MiB with. */
export const HASH_TABLE_MAX = 4_194_304;

const SHARDS = 256;
const KEY_WORDS = 4;
/** Hexadecimal digits of a hash before its key, and those of a word. */
const KEY_OFFSET_DIGITS = 32;
const WORD_DIGITS = 8;
const SLOTS_MIN = 16;
/** Above this share of filled slots a table doubles. */
const FILL_MAX = 0.75;

interface Shard {
  slots: Uint32Array;
  count: number;
}

interface Slot {
  /** where it begins, words */
  readonly at: number;
  readonly isTaken: boolean;
}

/** `numbers`: each hash has one, 0 to 2^32 - 1; otherwise it is a set. */
export class HashTable {
  readonly #words: number;
  readonly #shards: Shard[];
  #size = 0;

  constructor(kind: 'set' | 'numbers' = 'set') {
    this.#words = kind === 'set' ? KEY_WORDS : KEY_WORDS + 1;
    this.#shards = Array.from({ length: SHARDS }, () => ({
      slots: new Uint32Array(SLOTS_MIN * this.#words),
      count: 0,
    }));
  }

  get size(): number {
    return this.#size;
  }

  has(hash: Hash): boolean {
    return this.#find(this.#shardOf(hash).slots, readKey(hash)).isTaken;
  }

  /** Whether it was not there before. Throws RangeError beyond HASH_TABLE_MAX. */
  add(hash: Hash): boolean {
    const shard = this.#shardOf(hash);
    const { at, isTaken } = this.#find(shard.slots, readKey(hash));
    if (!isTaken) this.#insert(shard, at, key);
    return !isTaken;
  }

  /** The number of `hash`; undefined when it is not there. */
  find(hash: Hash): number | undefined {
    const { slots } = this.#shardOf(hash);
    const { at, isTaken } = this.#find(slots, readKey(hash));
    return isTaken ? slots[at + KEY_WORDS] : undefined;
  }

  /** Throws RangeError beyond HASH_TABLE_MAX. */
  set(hash: Hash, number: number): void {
    if (this.#words === KEY_WORDS) throw new TypeError('this table is a set');
    const shard = this.#shardOf(hash);
    const { at, isTaken } = this.#find(shard.slots, readKey(hash));
    if (isTaken) shard.slots[at + KEY_WORDS] = number;
    else this.#insert(shard, at, Uint32Array.of(...key, number));
  }

  #insert(shard: Shard, at: number, entry: Uint32Array): void {
    if (this.#size >= HASH_TABLE_MAX) throw new RangeError(`more than ${HASH_TABLE_MAX} hashes`);
    shard.slots.set(entry, at);
    shard.count += 1;
    this.#size += 1;
    if (shard.count > (shard.slots.length / this.#words) * FILL_MAX) this.#grow(shard);
  }

  #shardOf(hash: Hash): Shard {
    return this.#shards[Number.parseInt(hash.slice(0, 2), 16)] as Shard;
  }

  #find(slots: Uint32Array, key: Uint32Array): Slot {
    const words = this.#words;
    const mask = slots.length / words - 1;
    for (let slot = (key[0] as number) & mask; ; slot = (slot + 1) & mask) {
      const at = slot * words;
      let isEmpty = true;
      let isSame = true;
      for (let word = 0; word < KEY_WORDS; word += 1) {
        if (slots[at + word] !== 0) isEmpty = false;
        if (slots[at + word] !== key[word]) isSame = false;
      }
      if (isEmpty || isSame) return { at, isTaken: isSame };
    }
  }

  #grow(shard: Shard): void {
    const old = shard.slots;
    const words = this.#words;
    shard.slots = new Uint32Array(old.length * 2);
    for (let at = 0; at < old.length; at += words) {
      const entry = old.subarray(at, at + words);
      const isTaken = entry.subarray(0, KEY_WORDS).some((word) => word !== 0);
      if (isTaken) shard.slots.set(entry, this.#find(shard.slots, entry).at);
    }
  }
}

/** Of the hash that is looked up; no look lasts longer than a call. */
const key = new Uint32Array(KEY_WORDS);

/** 16 bytes that are not the shard's; all zero means an empty slot, so that one value is moved aside. */
function readKey(hash: Hash): Uint32Array {
  let isZero = true;
  for (let word = 0; word < KEY_WORDS; word += 1) {
    const start = KEY_OFFSET_DIGITS + word * WORD_DIGITS;
    const value = Number.parseInt(hash.slice(start, start + WORD_DIGITS), 16);
    key[word] = value;
    if (value !== 0) isZero = false;
  }
  if (isZero) key[0] = 1;
  return key;
}
