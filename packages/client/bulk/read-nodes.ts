/** Nodes out of packs of a server, one at a time. Each is proven by its hash, but for those that the caller has proven elsewhere. */
import {
  type BulkCodec,
  HASH_BYTES,
  type Hash,
  judgeCanonicalBytes,
  PACK_BYTES_MAX,
  PACK_MEDIA_TYPE,
  PACK_NODE_BYTES_MAX,
  PackReader,
  type PackRecord,
  RECORD_CODEC_NONE,
  type RecordNode,
  refsToHashes,
  type Unzstd,
  unpackRecord,
} from '@holdfast/protocol';
import type { ContentMemory } from '../content.ts';
import { type Clock, sleep } from '../deadline.ts';
import { hashCanonicalBytes, type NodeDigest } from '../digest.ts';
import { isConnectionBreak, VerificationError } from '../errors.ts';
import type { CallOptions } from '../operations.ts';
import { planBackoff, type RetryPolicy } from '../retry.ts';
import type { Answer } from '../transport.ts';

/** A node that was verified against its hash. */
export interface BulkNode {
  readonly hash: Hash;
  readonly contentType: string;
  /** ordered; duplicates kept */
  readonly refs: readonly Hash[];
  /** May be a view of more bytes than its own: copy what is to be kept for long. */
  readonly content: Uint8Array;
  /** All of the memory that `content` lies in, if nothing of another node lies there; undefined if that is not known. */
  readonly memory: Uint8Array | undefined;
  /** of the record it came in */
  readonly storedBytes: number;
}

/** A node as it came: nothing of it is proven yet. */
export interface UnprovenNode {
  readonly hash: Hash;
  /** `stored` is a view of the answer. */
  readonly record: PackRecord;
  /** of the record */
  readonly storedBytes: number;
  /** Verifies it here. Rejects with VerificationError. */
  prove(): Promise<BulkNode>;
  /** Nobody looks at `stored` any more. To be called once, and not after `prove`, whose node may be a view of the same bytes. */
  release(): void;
}

export interface ReadRecordsOptions extends CallOptions {
  /** The caller has this node verified elsewhere, before anybody trusts a byte of it. */
  readonly isLeftUnproven: (hash: Hash) => boolean;
  /** Takes back pieces of answers that nobody looks at any more. The garbage collector does when left out. */
  readonly memory?: Pick<ContentMemory, 'give'> | undefined;
}

export interface BulkReadSettings {
  readonly retry: RetryPolicy;
  readonly clock: Clock;
  readonly random: () => number;
  readonly contentIdleMs: number;
  readonly digest: NodeDigest | undefined;
  readonly unzstd: Unzstd | undefined;
}

/** Sends one request for these hashes; the answer's body is detached. */
export type AskForPack = (hashes: readonly Hash[], codecs: readonly BulkCodec[]) => Promise<Answer>;

/**
 * The nodes that can be read in bulk, in the order of `hashes`, by as many requests as that takes. A hash that does not come has
 * to be asked for by itself, which tells the reason. A connection that breaks is taken up again after the last node that came whole.
 */
export async function* readNodes(
  ask: AskForPack,
  settings: BulkReadSettings,
  hashes: readonly Hash[],
  { signal, isLeftUnproven, memory }: ReadRecordsOptions,
): AsyncGenerator<BulkNode | UnprovenNode, void, undefined> {
  const { retry, clock, random } = settings;
  const codecs = settings.unzstd === undefined ? [] : (['zstd'] as const);
  let rest = hashes;
  let breaks = 0;
  while (rest.length > 0) {
    const answer = await ask(rest, codecs);
    let done = 0;
    try {
      for await (const [node, position] of readAnswer(
        answer,
        { ...settings, isLeftUnproven, memory },
        rest,
      )) {
        done = position + 1;
        yield node;
      }
      // A node that the answer leaves out cannot be served now.
      if (done === 0) return;
      breaks = 0;
    } catch (error) {
      breaks = done === 0 ? breaks + 1 : 1;
      if (!isConnectionBreak(error) || breaks >= retry.attemptsMax) throw error;
      await sleep(clock, planBackoff(breaks, retry, random), signal);
    }
    rest = rest.slice(done);
  }
}

type AnswerSettings = BulkReadSettings & Pick<ReadRecordsOptions, 'isLeftUnproven' | 'memory'>;

/** Nodes of one answer with their positions in `hashes`. */
async function* readAnswer(
  answer: Answer,
  settings: AnswerSettings,
  hashes: readonly Hash[],
): AsyncGenerator<readonly [BulkNode | UnprovenNode, number], void, undefined> {
  const check = new AnswerCheck(answer, settings, hashes);
  const reader = new PackReader();
  let isOver = false;
  try {
    for (;;) {
      const chunk = await answer.readDetachedChunk(settings.contentIdleMs);
      if (chunk === undefined) break;
      const piece = new AnswerPiece(chunk, settings.memory);
      for (const record of reader.push(chunk)) yield await check.take(record, reader, piece);
      piece.release();
      if (reader.fault !== undefined) throw broken(answer, reader.fault.byte, reader.fault.message);
    }
    isOver = true;
  } finally {
    if (!isOver) answer.cancel();
  }
  reader.end();
  if (reader.fault !== undefined) throw answer.error('CONNECTION_FAILED', reader.fault.message);
}

/** One piece of an answer, which records may be views of. It is given back when the last of them is released. */
class AnswerPiece {
  readonly #bytes: Uint8Array;
  readonly #memory: Pick<ContentMemory, 'give'> | undefined;
  /** the reader itself is the first */
  #holders = 1;

  constructor(bytes: Uint8Array, memory: Pick<ContentMemory, 'give'> | undefined) {
    this.#bytes = bytes;
    this.#memory = memory;
  }

  /** Releases `stored`, whether it is a view of this piece or has memory of its own. */
  hold(stored: Uint8Array): () => void {
    if (stored.buffer !== this.#bytes.buffer) return () => this.#memory?.give(stored);
    this.#holders += 1;
    return () => this.release();
  }

  release(): void {
    this.#holders -= 1;
    if (this.#holders === 0) this.#memory?.give(this.#bytes);
  }
}

class AnswerCheck {
  readonly #answer: Answer;
  readonly #settings: AnswerSettings;
  readonly #positions: ReadonlyMap<Hash, number>;
  #lastPosition = -1;
  #canonicalBytes = 0;

  constructor(answer: Answer, settings: AnswerSettings, hashes: readonly Hash[]) {
    this.#answer = answer;
    this.#settings = settings;
    this.#positions = new Map(hashes.map((hash, index) => [hash, index]));
  }

  /** Throws VerificationError, and CasError MALFORMED_RESPONSE for what no server that keeps the rules sends. */
  async take(
    record: PackRecord,
    reader: PackReader,
    piece: AnswerPiece,
  ): Promise<readonly [BulkNode | UnprovenNode, number]> {
    const { hash } = record;
    const position = this.#positions.get(hash) ?? -1;
    if (position <= this.#lastPosition) {
      throw this.#malformed(record, 'it was not asked for, or not in this order');
    }
    this.#lastPosition = position;
    this.#canonicalBytes += record.canonicalLength;
    if (this.#canonicalBytes > PACK_BYTES_MAX) {
      throw this.#malformed(record, `with it the nodes have over ${PACK_BYTES_MAX} bytes`);
    }
    if (this.#settings.isLeftUnproven(hash)) return [this.#leave(record, piece), position];
    const release = piece.hold(record.stored);
    const node = await this.#judge(record);
    if (!reader.countRefs(record, node.refs.length / HASH_BYTES)) {
      throw this.#malformed(record, 'with it the pack has too many refs');
    }
    const described = describe(record, node);
    // The content of one that was not compressed is a view of it.
    if (record.codec !== RECORD_CODEC_NONE) release();
    return [described, position];
  }

  #leave(record: PackRecord, piece: AnswerPiece): UnprovenNode {
    const { hash, stored } = record;
    const prove = async (): Promise<BulkNode> => describe(record, await this.#judge(record));
    return { hash, record, storedBytes: stored.length, prove, release: piece.hold(stored) };
  }

  async #judge(record: PackRecord): Promise<RecordNode> {
    const { digest, unzstd } = this.#settings;
    if (record.codec !== 0 && unzstd === undefined) {
      throw this.#malformed(record, 'it is compressed, which was not asked for');
    }
    const unpacked = unpackRecord(record, PACK_NODE_BYTES_MAX, unzstd ?? refuseToUnpack);
    if (unpacked.rejection !== undefined) throw unproven(record, unpacked.rejection.message);
    const canonical = unpacked.node;
    const actual = await (digest?.(NO_BYTES, canonical) ?? hashCanonicalBytes(canonical));
    const judged = judgeCanonicalBytes(record.hash, actual, canonical);
    if (judged.rejection !== undefined) throw unproven(record, judged.rejection.message);
    return judged.node;
  }

  #malformed(record: PackRecord, reason: string) {
    return broken(this.#answer, record.byte, `record ${record.index + 1} (${record.hash}): ${reason}`);
  }
}

const NO_BYTES = new Uint8Array(0);

function describe({ hash, codec, stored }: PackRecord, node: RecordNode): BulkNode {
  const { contentType, content, canonical } = node;
  const memory = codec === RECORD_CODEC_NONE ? undefined : canonical;
  return { hash, contentType, refs: refsToHashes(node.refs), content, memory, storedBytes: stored.length };
}

/** Throws CasError MALFORMED_RESPONSE unless the answer says that it is a pack. */
export function detachPack(answer: Answer): Answer {
  const type = answer.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type !== PACK_MEDIA_TYPE) {
    const reason = 'the answer is no pack; check that baseUrl is the address of this API';
    throw answer.error('MALFORMED_RESPONSE', reason);
  }
  answer.detach();
  return answer;
}

function refuseToUnpack(): never {
  throw new TypeError('compressed records are refused before');
}

const broken = (answer: Answer, byte: number, reason: string) =>
  answer.brokenOnTheWay(`the pack that came is broken at byte ${byte}: ${reason}; do not use what follows`);

function unproven({ index, hash }: PackRecord, reason: string): VerificationError {
  const message = `readNodes: record ${index + 1} (${hash}) of the pack that came is not what its hash says: ${reason}; do not use it`;
  return new VerificationError(message, 'readNodes', hash);
}
