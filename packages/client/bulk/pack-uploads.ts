/**
 * Nodes on their way to the server in packs. One pack is made while others are sent and judged; how large packs are goes by how
 * fast they are sent. Whatever happens to a pack, each of its nodes ends with an outcome: the packs after it carry what is left.
 */
import {
  type EncodedRecord,
  encodeRecord,
  type Hash,
  PACK_HEADER_BYTES,
  PACK_RECORDS_MAX,
  PackBuilder,
  type PackInstruction,
  type PackLeaseResponse,
  type PackLeaseResult,
  RECORD_CODEC_ZSTD,
  RECORD_HEADER_BYTES,
  type ReadyLease,
  type Rejection,
  type ValidatedAwaitingChildren,
} from '@holdfast/protocol';
import type { Clock } from '../deadline.ts';
import { CasError } from '../errors.ts';
import { DAMAGED_UPLOADS_MAX, PUT_ROUNDS_MAX } from '../limits.ts';
import { Turns } from '../turns.ts';
import type { Bulk } from './bulk.ts';
import { isBulkUnavailable, type SendRequest } from './send-request.ts';

/** A node that is to travel. */
export interface PackedNode {
  readonly hash: Hash;
  /** The canonical bytes; asked for when their pack is made. `release` is called when they are no longer needed. */
  readonly make: () => Promise<Uint8Array>;
  readonly release: (bytes: Uint8Array) => void;
}

/** `unsettled`: only another lease tells. `alone`: the node cannot travel in a pack; send it by itself. */
export type PackOutcome =
  | {
      readonly kind: 'leased';
      readonly lease: ReadyLease | ValidatedAwaitingChildren;
      /** canonical bytes that were accepted from us; undefined when the server had them meanwhile */
      readonly uploadedBytes: number | undefined;
    }
  | { readonly kind: 'rejected'; readonly rejection: Rejection }
  | { readonly kind: 'unsettled' | 'alone' };

export interface PackUploadsOptions {
  readonly bulk: Pick<Bulk, 'leaseNodes' | 'uploadPack' | 'leasePack' | 'zstd'>;
  readonly send: SendRequest;
  readonly signal: AbortSignal | undefined;
  readonly clock: Clock;
  /** Of every node of a pack. */
  readonly leaseDurationMs: number;
  /** A pack of so many bytes was taken by the server. */
  readonly onSent: (packBytes: number) => void;
  /** All nodes given so far are in packs, and the last pack has room. */
  readonly onIdle: () => void;
  /** How many nodes of the Space the server knows to be damaged, with each opening of a pack. */
  readonly onRot?: ((rottenNodes: number) => void) | undefined;
}

const MIB_BYTES = 1024 * 1024;
/** Of the first pack: small, so that the server begins early, and a slow line is met with little. */
const PACK_TARGET_BYTES_START = 4 * MIB_BYTES;
const PACK_TARGET_BYTES_MIN = MIB_BYTES;
const PACK_TARGET_BYTES_MAX = 8 * MIB_BYTES;
/** A pack that was sent faster is followed by a larger one, one that took longer by a smaller one. */
const SENDING_MS_FAST = 5_000;
const SENDING_MS_SLOW = 20_000;
/** Packs that are sent or judged at once, beside the one that is made. */
const PACKS_MAX = 3;
/** Compressing less never saves a tenth that is worth the time. */
const COMPRESSED_BYTES_MIN = 96;
/** Compressing less takes no longer than handing it to another thread. */
const COMPRESSED_ASIDE_BYTES_MIN = 16 * 1024;
/** How long packs are made before others get a turn, ms. */
const MAKING_MS_MAX = 20;
/** An instruction is not used so shortly before it expires, ms. */
const EXPIRY_MARGIN_MS = 30_000;

/** Who waits for a node that was put into a pack. */
export interface PackedNodeEnd {
  readonly settle: (outcome: PackOutcome) => void;
  readonly fail: (error: unknown) => void;
}

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
  readonly #places = new Turns(() => PACKS_MAX);
  /** Of packs that were sent: left to the garbage collector it would pile up. */
  readonly #memories: ArrayBuffer[] = [];
  #making: Entry[] = [];
  #builder = makeBuilder(PACK_TARGET_BYTES_START);
  #targetBytes = PACK_TARGET_BYTES_START;
  #isMaking = false;
  readonly #sending = new Set<Promise<void>>();
  /** Where the next pack goes, if a lease of nodes has told already. */
  #instruction: PackInstruction | undefined;

  constructor(options: PackUploadsOptions) {
    this.#options = options;
  }

  get wantsPack(): boolean {
    return this.#instruction === undefined;
  }

  takeInstruction(instruction: PackInstruction): void {
    this.#instruction = instruction;
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
    await Promise.all(this.#sending);
  }

  /** Sends the pack that is being made as it is, if it could go at once. */
  flush(): void {
    const isReady = !this.#isMaking && this.#making.length > 0 && this.#sending.size < PACKS_MAX;
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
    if (!this.#builder.add(record) && !this.#addAlone(record)) return false;
    if (record.codec === RECORD_CODEC_ZSTD) this.#options.bulk.zstd?.release?.(record.stored);
    return true;
  }

  /** However small packs are on a slow line, each has room for one record. */
  #addAlone(record: EncodedRecord): boolean {
    if (this.#making.length > 0) return false;
    const bytesMax = PACK_HEADER_BYTES + RECORD_HEADER_BYTES + record.storedLength;
    this.#builder = makeBuilder(bytesMax, this.#builder.toBytes().buffer);
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
    const builder = this.#builder;
    this.#making = [];
    this.#builder = makeBuilder(this.#targetBytes, this.#memories.pop());
    const taken = this.#places.take();
    const sending = taken.then((done) => this.#sendPack(builder, entries).finally(done));
    this.#sending.add(sending);
    void sending.finally(() => {
      this.#sending.delete(sending);
      this.#options.onIdle();
    });
    await taken;
  }

  async #sendPack(builder: PackBuilder, entries: readonly Entry[]): Promise<void> {
    const left = new Map(entries.map((entry) => [entry.hash, entry]));
    try {
      await this.#deliver(builder, left);
    } catch (error) {
      for (const { end } of left.values()) end.fail(error);
    } finally {
      this.#memories.push(builder.toBytes().buffer);
    }
  }

  /** Sends the pack of the nodes in `left`. Those without an outcome in the end go into another pack. */
  async #deliver(builder: PackBuilder, left: Map<Hash, Entry>): Promise<void> {
    for (let round = 1; round <= PUT_ROUNDS_MAX; round += 1) {
      const instruction = await this.#findInstruction(left);
      if (left.size === 0) return;
      if (instruction === undefined) return settleAll(left, 'alone');
      const nodeCount = left.size;
      // Some are there meanwhile: what is left goes on without them.
      if (nodeCount < builder.recordCount) builder.retain((hash) => left.has(hash));
      const bytes = builder.toBytes();
      if (bytes.length > instruction.bytesMax || nodeCount > instruction.recordsMax) {
        return settleAll(left, 'alone');
      }
      const answer = await this.#send(bytes, instruction, nodeCount);
      if (answer === undefined) continue;
      for (const result of answer.results) {
        const entry = left.get(result.hash);
        left.delete(result.hash);
        entry?.end.settle(outcomeOf(result, entry.canonicalLength));
      }
      return this.#sendAgain([...left.values()]);
    }
    settleAll(left, 'unsettled');
  }

  /** What stands behind a fault of a pack was changed on the way: our packs have none. */
  #sendAgain(entries: readonly Entry[]): void {
    const again: Entry[] = [];
    for (const entry of entries) {
      entry.rounds += 1;
      if (entry.rounds > DAMAGED_UPLOADS_MAX) entry.end.settle({ kind: 'alone' });
      else again.push(entry);
    }
    if (again.length > 0) this.#enqueue(again);
  }

  /** Where the pack of these nodes goes. Those that the server has meanwhile leave `left`. Undefined when there is no Bulk any more. */
  async #findInstruction(left: Map<Hash, Entry>): Promise<PackInstruction | undefined> {
    const { bulk, send, signal, clock, leaseDurationMs, onRot } = this.#options;
    const spare = this.#instruction;
    this.#instruction = undefined;
    if (spare !== undefined && spare.expiresAt - clock.now() > EXPIRY_MARGIN_MS) return spare;
    const hashes = [...left.keys()];
    try {
      const {
        results,
        pack,
        rottenNodes = 0,
      } = await send('the opening of a pack', () =>
        bulk.leaseNodes(hashes, { leaseDurationMs, pack: true }, { signal }),
      );
      onRot?.(rottenNodes);
      for (const result of results) {
        if (result.state === 'absent') continue;
        left.get(result.hash)?.end.settle({ kind: 'leased', lease: result, uploadedBytes: undefined });
        left.delete(result.hash);
      }
      return pack;
    } catch (error) {
      if (isBulkUnavailable(error)) return undefined;
      throw error;
    }
  }

  /** What became of the pack; undefined when only other leases tell: its instruction was over, or nothing is known of it. */
  async #send(
    bytes: Uint8Array,
    instruction: PackInstruction,
    nodeCount: number,
  ): Promise<PackLeaseResponse | undefined> {
    const { bulk, send, signal, clock, leaseDurationMs, onSent } = this.#options;
    const sentAt = clock.now();
    try {
      const end = await send(`the upload of a pack of ${nodeCount} nodes`, () =>
        bulk.uploadPack(instruction, bytes, { signal }),
      );
      if (end === 'accepted') onSent(bytes.length);
      this.#learnSpeed(clock.now() - sentAt);
      return await send(`the lease of a pack of ${nodeCount} nodes`, () =>
        bulk.leasePack(instruction.id, { leaseDurationMs }, { signal }),
      );
    } catch (error) {
      if (isOver(error)) return undefined;
      throw error;
    }
  }

  #learnSpeed(sendingMs: number): void {
    if (sendingMs <= SENDING_MS_FAST) {
      this.#targetBytes = Math.min(PACK_TARGET_BYTES_MAX, this.#targetBytes * 2);
    } else if (sendingMs >= SENDING_MS_SLOW) {
      this.#targetBytes = Math.max(PACK_TARGET_BYTES_MIN, this.#targetBytes / 2);
    }
  }
}

/** Its memory has room for the largest pack, so that any other takes it over; what of it is never written to costs nothing. */
function makeBuilder(
  bytesMax: number,
  memory: ArrayBuffer = new ArrayBuffer(PACK_TARGET_BYTES_MAX),
): PackBuilder {
  return new PackBuilder({ bytesMax, recordsMax: PACK_RECORDS_MAX }, memory);
}

function outcomeOf(result: PackLeaseResult, canonicalLength: number): PackOutcome {
  switch (result.state) {
    case 'rejected':
      return { kind: 'rejected', rejection: result.rejection };
    case 'absent':
      return { kind: 'unsettled' };
    default:
      return { kind: 'leased', lease: result, uploadedBytes: canonicalLength };
  }
}

function settleAll(left: ReadonlyMap<Hash, Entry>, kind: 'unsettled' | 'alone'): void {
  for (const { end } of left.values()) end.settle({ kind });
}

/** Statuses after which leases of the nodes tell how it stands with them, and open another pack. */
const OVER_STATUSES: ReadonlySet<number> = new Set([
  404, // the pack is forgotten, or Bulk is no longer offered
  409, // nothing was uploaded: the instruction had expired
]);

function isOver(error: unknown): boolean {
  return error instanceof CasError && error.status !== undefined && OVER_STATUSES.has(error.status);
}
