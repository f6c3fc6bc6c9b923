/**
 * Nodes on their way to the server in packs. One pack is made while others are on their way. The faster packs are sent, the larger
 * the next ones are. Each node of a pack gets an outcome in any case: later packs carry what is left.
 */
import {
  type EncodedRecord,
  encodeRecord,
  type Hash,
  MIB_BYTES,
  PACK_HEADER_BYTES,
  PackBuilder,
  type PackInstruction,
  RECORD_CODEC_ZSTD,
  RECORD_HEADER_BYTES,
} from '@holdfast/protocol';
import type { Clock } from '../deadline.ts';
import { DAMAGED_UPLOADS_MAX } from '../limits.ts';
import type { Bulk } from './bulk.ts';
import { PackDeliveries, type PackedNodeEnd, type PackOutcome } from './pack-deliveries.ts';
import type { SendRequest } from './send-request.ts';

/** A node that is to travel. */
export interface PackedNode {
  readonly hash: Hash;
  /** The canonical bytes; asked for when their pack is made. `release` is called when they are no longer needed. */
  readonly make: () => Promise<Uint8Array>;
  readonly release: (bytes: Uint8Array) => void;
}

export interface PackUploadsOptions {
  readonly bulk: Pick<Bulk, 'leaseNodes' | 'uploadPack' | 'leasePack' | 'zstd'>;
  readonly send: SendRequest;
  readonly signal: AbortSignal | undefined;
  readonly clock: Clock;
  /** The lease of every node of a pack. */
  readonly leaseDurationMs: number;
  /** The server has taken a pack of `bytes`. */
  readonly onSent: (packBytes: number) => void;
  /** All nodes given so far are in packs, and the last pack has room. */
  readonly onIdle: () => void;
  /** How many nodes of the Space the server knows to be damaged, with each opening of a pack. */
  readonly onRot?: ((rottenNodes: number) => void) | undefined;
}

/** The size of the first pack: small, so that the server begins early, and a slow line is met with little. */
const PACK_TARGET_BYTES_START = 4 * MIB_BYTES;
const PACK_TARGET_BYTES_MIN = MIB_BYTES;
/** Each pack costs a bucket two requests, and the client memory. With packs of this size 1,000 nodes of 20 KiB cost less than five. */
const PACK_TARGET_BYTES_MAX = 9 * MIB_BYTES;
/**
 * A pack of tiny nodes is full by their number. The server publishes each in a few hundredths of a millisecond: of as many as a pack
 * may hold the last pack of a push alone took a quarter of a second, when nothing else was left to do.
 */
/** A pack that was sent faster is followed by a larger one, one that took longer by a smaller one. */
const SENDING_MS_FAST = 5_000;
const SENDING_MS_SLOW = 20_000;
/** A pack that still has room is sent only while fewer packs than this are on their way. */
const FLUSHED_MAX = 3;
/** Compressing less saves some hundred bytes at most, and starting the compressor takes longer than all else that a node costs. */
const COMPRESSED_BYTES_MIN = 256;
/** Larger than a file of one piece: chunks of large files are compressed on other threads. For less, the promise costs too much. */
const COMPRESSED_ASIDE_BYTES_MIN = 513 * 1024;
/** How long packs are made before others get a turn, ms. */
const MAKING_MS_MAX = 20;

interface Entry {
  readonly hash: Hash;
  /** undefined when it cannot be made again */
  readonly node: PackedNode | undefined;
  readonly end: PackedNodeEnd;
  /** packs that it was in, and that said nothing of it */
  rounds: number;
  /** its canonical bytes, once it was made */
  canonicalLength: number;
}

export class PackUploads {
  readonly #options: PackUploadsOptions;
  readonly #queue: Entry[] = [];
  readonly #deliveries: PackDeliveries<Entry>;
  /** Memory of packs that were sent: left to the garbage collector it would pile up. */
  readonly #memories: ArrayBuffer[] = [];
  #making: Entry[] = [];
  /** of the pack that is being made; made with its first record */
  #builder: PackBuilder | undefined;
  #hasClosed = false;
  #targetBytes = PACK_TARGET_BYTES_START;
  #isMaking = false;

  constructor(options: PackUploadsOptions) {
    this.#options = options;
    this.#deliveries = new PackDeliveries({
      ...options,
      onSpeed: (sendingMs) => this.#learnSpeed(sendingMs),
      onFree: (memory) => this.#memories.push(memory),
      onLeft: (entries) => this.#sendAgain(entries),
      onEnd: options.onIdle,
    });
  }

  get wantsPack(): boolean {
    return this.#deliveries.wantsInstruction;
  }

  takeInstruction(instruction: PackInstruction): void {
    this.#deliveries.takeInstruction(instruction);
  }

  /** Rejects with what `make` or a request rejects with. */
  add(node: PackedNode): Promise<PackOutcome> {
    return new Promise((settle, fail) => {
      const { hash } = node;
      this.#enqueue([{ hash, node, end: { settle, fail }, rounds: 0, canonicalLength: 0 }]);
    });
  }

  /**
   * Puts a node whose bytes are at hand into the pack that is being made, which copies them. False when that is full: `close` it,
   * and try once more.
   */
  put(record: EncodedRecord, end: PackedNodeEnd): boolean {
    if (!this.#addRecord(record)) return false;
    const { hash, canonicalLength } = record;
    this.#making.push({ hash, node: undefined, end, rounds: 0, canonicalLength });
    return true;
  }

  /** Every pack has its end, and what is being made is not sent. */
  async settled(): Promise<void> {
    await this.#deliveries.settled();
  }

  /** Sends the pack that is being made as it is, if it could go at once. */
  flush(): void {
    const isReady = !this.#isMaking && this.#making.length > 0 && this.#deliveries.count < FLUSHED_MAX;
    if (isReady) void this.close();
  }

  #enqueue(entries: readonly Entry[]): void {
    this.#queue.push(...entries);
    if (!this.#isMaking) void this.#make();
  }

  async #make(): Promise<void> {
    const { clock, signal } = this.#options;
    this.#isMaking = true;
    let startedAt = clock.now();
    for (let entry = this.#queue.shift(); entry !== undefined; entry = this.#queue.shift()) {
      try {
        signal?.throwIfAborted();
        await this.#place(entry);
      } catch (error) {
        entry.end.fail(error);
      }
      if (clock.now() - startedAt < MAKING_MS_MAX) continue;
      await new Promise((resolve) => setTimeout(resolve, 0));
      startedAt = clock.now();
    }
    this.#isMaking = false;
    this.#options.onIdle();
  }

  async #place(entry: Entry): Promise<void> {
    const { node } = entry;
    if (node === undefined) return entry.end.settle({ kind: 'unsettled' });
    const bytes = await node.make();
    try {
      const record = this.encode(node.hash, bytes);
      if (!this.#addRecord(record)) {
        await this.close();
        if (!this.#addRecord(record)) return entry.end.settle({ kind: 'alone' });
      }
      entry.canonicalLength = record.canonicalLength;
    } finally {
      node.release(bytes);
    }
    this.#making.push(entry);
  }

  /** Copies the record into the pack that is being made. A frame's memory is given back then, and nowhere else. */
  #addRecord(record: EncodedRecord): boolean {
    this.#builder ??= makeBuilder(this.#targetBytes, this.#takeMemory());
    if (!this.#builder.add(record) && !this.#addAlone(record, this.#builder)) return false;
    if (record.codec === RECORD_CODEC_ZSTD) this.#options.bulk.zstd?.release?.(record.stored);
    return true;
  }

  /** A single small pack grows as it must: the memory of a large one takes a millisecond. Others take over the memory of one before. */
  #takeMemory(): ArrayBuffer | undefined {
    return this.#memories.pop() ?? (this.#hasClosed ? new ArrayBuffer(PACK_TARGET_BYTES_MAX) : undefined);
  }

  /** However small packs are on a slow line, each has room for one record. */
  #addAlone(record: EncodedRecord, builder: PackBuilder): boolean {
    if (this.#making.length > 0) return false;
    const bytesMax = PACK_HEADER_BYTES + RECORD_HEADER_BYTES + record.storedLength;
    this.#builder = makeBuilder(bytesMax, builder.toBytes().buffer);
    return this.#builder.add(record);
  }

  /** A view of `bytes`, where they are not compressed. */
  encode(hash: Hash, bytes: Uint8Array): EncodedRecord {
    const compress = bytes.length < COMPRESSED_BYTES_MIN ? undefined : this.#options.bulk.zstd?.compress;
    return encodeRecord(hash, bytes, compress);
  }

  /** The same, of larger nodes on another thread: `bytes` stay as they are until it settles. */
  encodeAside(hash: Hash, bytes: Uint8Array): EncodedRecord | Promise<EncodedRecord> {
    const compressAside = this.#options.bulk.zstd?.compressAside;
    if (compressAside === undefined || bytes.length < COMPRESSED_ASIDE_BYTES_MIN) {
      return this.encode(hash, bytes);
    }
    const compressing = compressAside(bytes);
    if (compressing === undefined) return encodeRecord(hash, bytes);
    return compressing.then((frame) => encodeRecord(hash, bytes, () => frame));
  }

  /** Sends the pack that is being made as it is. Resolves when there is a place for it; then it goes on by itself. */
  async close(): Promise<void> {
    const entries = this.#making;
    if (entries.length === 0) return;
    const builder = this.#builder as PackBuilder;
    this.#making = [];
    this.#builder = undefined;
    this.#hasClosed = true;
    await this.#deliveries.start(builder, entries);
  }

  /** The bytes behind a fault of a pack were changed on the way: our packs have no fault. */
  #sendAgain(entries: readonly Entry[]): void {
    const again: Entry[] = [];
    for (const entry of entries) {
      entry.rounds += 1;
      if (entry.rounds > DAMAGED_UPLOADS_MAX) entry.end.settle({ kind: 'alone' });
      else again.push(entry);
    }
    if (again.length > 0) this.#enqueue(again);
  }

  #learnSpeed(sendingMs: number): void {
    if (sendingMs <= SENDING_MS_FAST) {
      this.#targetBytes = Math.min(PACK_TARGET_BYTES_MAX, this.#targetBytes * 2);
    } else if (sendingMs >= SENDING_MS_SLOW) {
      this.#targetBytes = Math.max(PACK_TARGET_BYTES_MIN, this.#targetBytes / 2);
    }
  }
}

function makeBuilder(bytesMax: number, memory: ArrayBuffer | undefined): PackBuilder {
  return new PackBuilder({ bytesMax, recordsMax: 1024 }, memory);
}
