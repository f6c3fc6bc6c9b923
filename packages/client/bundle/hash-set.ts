/**
 * Hashes that were met, many of them in little memory: 16 bytes of each in open-addressing tables, sharded so that growing
 * copies only one of 256. 128 bits are as good as the whole: two of 2^22 hashes share them with a chance below 2^-84.
 */
import { type Hash, hashToBytes } from '@holdfast/protocol';

/** 4 Mi hashes: at most 128 MiB of tables. */
export const HASHES_MAX = 4_194_304;

const SHARDS = 256;
const ENTRY_BYTES = 16;
const SLOTS_MIN = 16;
/** Above this share of filled slots a table doubles. */
const FILL_MAX = 0.75;

interface Shard {
  slots: Uint32Array;
  count: number;
}

const WORDS = ENTRY_BYTES / 4;

export class HashSet {
  readonly #shards: Shard[] = Array.from({ length: SHARDS }, () => ({
    slots: new Uint32Array(SLOTS_MIN * WORDS),
    count: 0,
  }));
  #size = 0;

  get size(): number {
    return this.#size;
  }

  has(hash: Hash): boolean {
    const entry = readEntry(hash);
    return findSlot(this.#shardOf(hash).slots, entry).isTaken;
  }

  /** Whether it was not there before. Throws RangeError beyond HASHES_MAX. */
  add(hash: Hash): boolean {
    const entry = readEntry(hash);
    const shard = this.#shardOf(hash);
    const slot = findSlot(shard.slots, entry);
    if (slot.isTaken) return false;
    if (this.#size >= HASHES_MAX) throw new RangeError(`more than ${HASHES_MAX} hashes`);
    shard.slots.set(entry, slot.at);
    shard.count += 1;
    this.#size += 1;
    if (shard.count > (shard.slots.length / WORDS) * FILL_MAX) grow(shard);
    return true;
  }

  #shardOf(hash: Hash): Shard {
    return this.#shards[Number.parseInt(hash.slice(0, 2), 16)] as Shard;
  }
}

/** 16 bytes that are not the shard's; all zero means an empty slot, so that one value is moved aside. */
function readEntry(hash: Hash): Uint32Array {
  const bytes = hashToBytes(hash);
  const entry = new Uint32Array(bytes.buffer, ENTRY_BYTES, WORDS);
  if (entry.every((word) => word === 0)) entry[0] = 1;
  return entry;
}

function findSlot(slots: Uint32Array, entry: Uint32Array): { at: number; isTaken: boolean } {
  const mask = slots.length / WORDS - 1;
  for (let slot = (entry[0] as number) & mask; ; slot = (slot + 1) & mask) {
    const at = slot * WORDS;
    let isEmpty = true;
    let isSame = true;
    for (let word = 0; word < WORDS; word += 1) {
      if (slots[at + word] !== 0) isEmpty = false;
      if (slots[at + word] !== entry[word]) isSame = false;
    }
    if (isEmpty || isSame) return { at, isTaken: isSame };
  }
}

function grow(shard: Shard): void {
  const old = shard.slots;
  shard.slots = new Uint32Array(old.length * 2);
  for (let at = 0; at < old.length; at += WORDS) {
    const entry = old.subarray(at, at + WORDS);
    if (entry.some((word) => word !== 0)) shard.slots.set(entry, findSlot(shard.slots, entry).at);
  }
}
