/** Packs of nodes: one is made while others are sent and judged; the faster they go, the larger the next. Each node has one outcome. */
import {
  countOf,
  type EncodedRecord,
  encodeRecord,
  type Hash,
  MIB_BYTES,
  PACK_HEADER_BYTES,
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
import { PUT_ROUNDS_MAX } from '../limits.ts';
import { Semaphore } from '../semaphore.ts';
import type { Bulk } from './bulk.ts';
import { isBulkUnavailable, type SendRequest } from './send-request.ts';

/**
 * Up to here a node travels in a pack. Every chunk of a file does (at most 4 MiB, and its header), so that a file is read once, and
 * some ten chunks cost the server one sync of its disk. Larger nodes of other makers go by themselves: a pack of one saves nothing.
 * Canonical bytes.
 */
export const PACKED_NODE_BYTES_MAX = 5 * MIB_BYTES;

/** `unsettled`: only another lease tells. `alone`: the node cannot travel in a pack; send it by itself. */
export type PackOutcome =
  | {
      readonly kind: 'leased';
      readonly lease: ReadyLease | ValidatedAwaitingChildren;
      /** canonical bytes that were accepted from us; undefined when the server had them meanwhile */
      readonly uploadedBytes: number | undefined;
    }
  | { readonly kind: 'rejected'; readonly rejection: Rejection }
  | { readonly kind: 'unsettled' }
  | { readonly kind: 'alone' };

export interface PackedNode {
  readonly hash: Hash;
  readonly canonicalLength: number;
}

export interface PacksOptions<Node extends PackedNode> {
  readonly bulk: Pick<Bulk, 'leaseNodes' | 'uploadPack' | 'leasePack' | 'zstd'>;
  readonly send: SendRequest;
  readonly signal: AbortSignal | undefined;
  readonly clock: Clock;
  /** The lease of every node of a pack. */
  readonly leaseDurationMs: number;
  readonly onOutcome: (node: Node, outcome: PackOutcome) => void;
  /** A request failed for good. */
  readonly onFailure: (node: Node, error: unknown) => void;
  /** The server has taken a pack of `bytes`. */
  readonly onSent?: ((packBytes: number) => void) | undefined;
  /** A pack has its end. */
  readonly onEnd?: (() => void) | undefined;
  /** How many nodes of the Space the server knows to be damaged, with each opening of a pack. */
  readonly onRot?: ((rottenNodes: number) => void) | undefined;
}

/** Each pack costs a bucket two requests, and the client memory. With packs of this size 1,000 nodes of 20 KiB cost less than five. */
const PACK_TARGET_BYTES_MAX = 9 * MIB_BYTES;
/** Larger than a file of one piece: chunks of large files are compressed on other threads. For less, the promise costs too much. */
const COMPRESSED_ASIDE_BYTES_MIN = 513 * 1024;

export class Packs<Node extends PackedNode> {
  readonly #options: PacksOptions<Node>;
  /** Packs that are sent at once. Beside them one is made, and one is opened and waits for its place: each holds memory. */
  readonly #places = new Semaphore(2);
  /** Packs that are judged at once. Others keep their memory and their place until their turn. */
  readonly #judgements = new Semaphore(3);
  readonly #underWay = new Set<Promise<void>>();
  /** The upload of the next pack, if a lease of nodes has given it. */
  instruction: PackInstruction | undefined;
  /** Memory of packs that were sent: left to the garbage collector it would pile up. */
  readonly #memories: ArrayBuffer[] = [];
  /** of the pack that is being made */
  #nodes = new Map<Hash, Node>();
  /** made with the first record */
  #builder: PackBuilder | undefined;
  #hasClosed = false;
  /** The first pack is small, so that the server begins early, and a slow line is met with little. */
  #targetBytes = 4 * MIB_BYTES;

  constructor(options: PacksOptions<Node>) {
    this.#options = options;
  }

  /** Packs that have no end yet. */
  get count(): number {
    return this.#underWay.size;
  }

  /** Every pack has its end; the one that is being made is not sent. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  /** Copies the record into the pack that is made. False when that is full: `close` it, and try once more. */
  put(record: EncodedRecord, node: Node): boolean {
    this.#builder ??= makeBuilder(this.#targetBytes, this.#takeMemory());
    if (!this.#builder.add(record) && !this.#addAlone(record, this.#builder)) return false;
    if (record.codec === RECORD_CODEC_ZSTD) this.#options.bulk.zstd?.release?.(record.stored);
    this.#nodes.set(record.hash, node);
    return true;
  }

  /** A single small pack grows as it must: the memory of a large one takes a millisecond. Others take over the memory of one before. */
  #takeMemory(): ArrayBuffer | undefined {
    return this.#memories.pop() ?? (this.#hasClosed ? new ArrayBuffer(PACK_TARGET_BYTES_MAX) : undefined);
  }

  /** However small packs are on a slow line, each has room for one record. */
  #addAlone(record: EncodedRecord, builder: PackBuilder): boolean {
    if (this.#nodes.size > 0) return false;
    const bytesMax = PACK_HEADER_BYTES + RECORD_HEADER_BYTES + record.storedLength;
    this.#builder = makeBuilder(bytesMax, builder.toBytes().buffer);
    return this.#builder.add(record);
  }

  /** A view of `bytes`, where they are not compressed. */
  encode(hash: Hash, bytes: Uint8Array): EncodedRecord {
    // For less, starting the compressor takes longer than all else that a node costs.
    const compress = bytes.length < 256 ? undefined : this.#options.bulk.zstd?.compress;
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
    const pack = this.#builder;
    const nodes = this.#nodes;
    if (pack === undefined || nodes.size === 0) return;
    this.#nodes = new Map();
    this.#builder = undefined;
    this.#hasClosed = true;
    const place = this.#places.take();
    const delivering = this.#deliver(pack, nodes, place);
    this.#underWay.add(delivering);
    void delivering.finally(() => {
      this.#underWay.delete(delivering);
      this.#options.onEnd?.();
    });
    await place;
  }

  async #deliver(pack: PackBuilder, left: Map<Hash, Node>, place: Promise<() => void>): Promise<void> {
    try {
      const judged = await this.#sendUntilTaken(pack, left, place);
      if (judged === undefined) return;
      const answer = await this.#judge(judged.id, left.size).finally(judged.done);
      this.#takeResults(answer?.results ?? [], left);
    } catch (error) {
      for (const node of left.values()) this.#options.onFailure(node, error);
    }
  }

  /** Sends the pack of the nodes in `left`. Resolves with the pack to judge, or with nothing when all have an outcome. */
  async #sendUntilTaken(
    pack: PackBuilder,
    left: Map<Hash, Node>,
    place: Promise<() => void>,
  ): Promise<PackJudgement | undefined> {
    // The pack is opened while it waits for its place.
    const opening = this.#findInstruction(left);
    opening.catch(() => undefined);
    const done = await place;
    try {
      for (let round = 1; round <= PUT_ROUNDS_MAX; round += 1) {
        let instruction = await (round === 1 ? opening : this.#findInstruction(left));
        // The place may have come so late that the instruction is over.
        if (instruction !== undefined && !this.#isUsable(instruction)) {
          instruction = await this.#findInstruction(left);
        }
        if (left.size === 0) return undefined;
        if (instruction === undefined) return this.#settleAll(left, 'alone');
        // The server has some of the nodes meanwhile: the pack goes on without them.
        if (left.size < pack.recordCount) pack.retain((hash) => left.has(hash));
        const bytes = pack.toBytes();
        if (bytes.length > instruction.bytesMax || left.size > instruction.recordsMax) {
          return this.#settleAll(left, 'alone');
        }
        const sent = await this.#upload(bytes, instruction, left.size);
        if (sent === undefined) continue;
        const judgement = { id: instruction.id, done: await this.#judgements.take() };
        if (sent === 'accepted') return judgement;
        // An earlier attempt may have brought the pack. Only its lease tells, so its memory is kept until then.
        const answer = await this.#judge(judgement.id, left.size).finally(judgement.done);
        if (answer !== undefined) return this.#takeResults(answer.results, left);
      }
      // The target takes no pack. A node by itself tells why, and packs may be refused alone.
      return this.#settleAll(left, 'alone');
    } finally {
      this.#memories.push(pack.toBytes().buffer);
      done();
    }
  }

  /** An instruction is not used shortly before it expires. */
  #isUsable({ expiresAt }: PackInstruction): boolean {
    return expiresAt - this.#options.clock.now() > 30_000;
  }

  #takeResults(results: readonly PackLeaseResult[], left: Map<Hash, Node>): undefined {
    for (const result of results) {
      const node = left.get(result.hash);
      left.delete(result.hash);
      if (node !== undefined) this.#options.onOutcome(node, outcomeOf(result, node.canonicalLength));
    }
    // The bytes behind a fault of the pack were changed on the way: our packs have no fault.
    return this.#settleAll(left, 'unsettled');
  }

  #settleAll(left: ReadonlyMap<Hash, Node>, kind: 'unsettled' | 'alone'): undefined {
    for (const node of left.values()) this.#options.onOutcome(node, { kind });
  }

  /** The upload for the pack of these nodes. Those that the server has meanwhile leave `left`. Undefined when there is no Bulk any more. */
  async #findInstruction(left: Map<Hash, Node>): Promise<PackInstruction | undefined> {
    const { bulk, send, signal, leaseDurationMs, onRot, onOutcome } = this.#options;
    const spare = this.instruction;
    this.instruction = undefined;
    if (spare !== undefined && this.#isUsable(spare)) return spare;
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
        const node = left.get(result.hash);
        if (result.state === 'absent' || node === undefined) continue;
        left.delete(result.hash);
        onOutcome(node, { kind: 'leased', lease: result, uploadedBytes: undefined });
      }
      return pack;
    } catch (error) {
      if (isBulkUnavailable(error)) return undefined;
      throw error;
    }
  }

  /** Undefined when the instruction is over. */
  async #upload(
    bytes: Uint8Array,
    instruction: PackInstruction,
    nodeCount: number,
  ): Promise<'accepted' | 'superseded' | undefined> {
    const { bulk, send, signal, clock, onSent } = this.#options;
    const sentAt = clock.now();
    const sent = await unlessOver(
      send(`the upload of a pack of ${countOf(nodeCount, 'node')}`, () =>
        bulk.uploadPack(instruction, bytes, { signal }),
      ),
    );
    if (sent === 'accepted') onSent?.(bytes.length);
    if (sent !== undefined) this.#learnSpeed(clock.now() - sentAt);
    return sent;
  }

  /** A pack that was sent faster is followed by a larger one, one that took longer by a smaller one. */
  #learnSpeed(sendingMs: number): void {
    if (sendingMs <= 5_000) this.#targetBytes = Math.min(PACK_TARGET_BYTES_MAX, this.#targetBytes * 2);
    else if (sendingMs >= 20_000) this.#targetBytes = Math.max(MIB_BYTES, this.#targetBytes / 2);
  }

  /** The fate of the pack; undefined when only other leases tell: its instruction was over, or nothing is known of it. */
  #judge(id: PackInstruction['id'], nodeCount: number): Promise<PackLeaseResponse | undefined> {
    const { bulk, send, signal, leaseDurationMs } = this.#options;
    return unlessOver(
      send(`the lease of a pack of ${countOf(nodeCount, 'node')}`, () =>
        bulk.leasePack(id, { leaseDurationMs }, { signal }),
      ),
    );
  }
}

/** A pack that has its turn to be judged. */
interface PackJudgement {
  readonly id: PackInstruction['id'];
  readonly done: () => void;
}

/**
 * A pack of tiny nodes is full by their number. The server publishes each in a few hundredths of a millisecond: of as many as a pack
 * may hold the last pack of a push alone took a quarter of a second, when nothing else was left to do.
 */
function makeBuilder(bytesMax: number, memory: ArrayBuffer | undefined): PackBuilder {
  return new PackBuilder({ bytesMax, recordsMax: 1024 }, memory);
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

/** Undefined for a status after which leases of the nodes tell how it stands with them, and open another pack. */
async function unlessOver<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    // 404: the pack is forgotten, or Bulk is no longer offered. 409: nothing was uploaded, because the instruction had expired.
    if (error instanceof CasError && (error.status === 404 || error.status === 409)) return undefined;
    throw error;
  }
}
