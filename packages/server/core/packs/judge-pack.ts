/** Judges the object of a pack: streams it once, with one record in memory, and keeps what publication needs. */
import {
  HASH_BYTES,
  type Hash,
  judgeRecord,
  PACK_NODE_BYTES_MAX,
  type PackFault,
  PackReader,
  type PackRecord,
  RECORD_CODEC_NONE,
  RECORD_HEADER_BYTES,
  type RecordJudge,
  refsToHashes,
  type Unzstd,
  unpackRecord,
} from '@holdfast/protocol';
import { askCollector, releaseBytes } from '../../runtime/release-bytes.ts';
import type { Generation, PackCodec, Space } from '../model.ts';
import type { PackRejection } from '../pack-model.ts';
import type {
  JudgedPack,
  JudgedRecord,
  JudgingPlace,
  JudgingTurns,
  PackJudge,
  PackObject,
  PackStore,
  SizeRule,
} from '../pack-ports.ts';
import { sha256Hex } from '../signer.ts';
import { ContentDamaged } from '../store-failure.ts';

/** `refsOf`: the refs of a node, 32 raw bytes each; undefined where they are not known. Keeps the order of what does not matter. */
export function childrenFirst(
  hashes: readonly Hash[],
  refsOf: (hash: Hash) => Uint8Array | undefined,
): Hash[] {
  const left = new Set(hashes);
  const ordered: Hash[] = [];
  for (const hash of hashes) {
    if (!left.delete(hash)) continue;
    // Without recursion: a chain of nodes may be as long as the list.
    const path = [{ hash, children: childrenOf(hash, refsOf) }];
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const child = top.children.pop();
      if (child === undefined) {
        ordered.push(top.hash);
        path.pop();
      } else if (left.delete(child)) {
        path.push({ hash: child, children: childrenOf(child, refsOf) });
      }
    }
  }
  return ordered;
}

function childrenOf(hash: Hash, refsOf: (hash: Hash) => Uint8Array | undefined): Hash[] {
  const refs = refsOf(hash);
  return refs === undefined ? [] : refsToHashes(refs).toReversed();
}

const NOTHING = new Uint8Array(0);
/** The cost of a record besides its bytes, as a number of bytes that take the same time to judge. */
const RECORD_COST_BYTES = 8 * 1024;

/** Callers that ask for one pack at the same time share one reading of it. */
export class PackJudgements implements PackJudge {
  readonly #unzstd: Unzstd;
  readonly #turns: JudgingTurns;
  /** judgements that gave way and keep what they found */
  #resting = 0;
  readonly #underWay = new Map<string, Promise<JudgedPack | undefined>>();

  constructor(unzstd: Unzstd, turns: JudgingTurns) {
    this.#unzstd = unzstd;
    this.#turns = turns;
  }

  /** An object that was found stays true, because keys are written once. */
  async judge(
    packs: PackStore,
    space: Space,
    pack: Generation,
    sizes: SizeRule,
  ): Promise<JudgedPack | undefined> {
    // Publication that goes on may find others too large than a judgement that began before it.
    const key = 'tooLarge' in sizes ? `${pack} goes on` : pack;
    const earlier = await this.#underWay.get(key);
    if (earlier !== undefined) return earlier;
    const shared = this.#underWay.get(key);
    if (shared !== undefined) return shared;
    const judging = this.#judgeInTurns(packs, space, pack, sizes).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, judging);
    return judging;
  }

  digestOf(codec: PackCodec, canonicalSize: number, stored: Uint8Array): Hash {
    const { node, rejection } = unpackRecord(
      { codec, stored, canonicalLength: canonicalSize },
      PACK_NODE_BYTES_MAX,
      this.#unzstd,
    );
    if (rejection !== undefined) throw new ContentDamaged(rejection.message);
    const digest = sha256Hex(node);
    if (codec !== RECORD_CODEC_NONE) releaseOwn(node);
    return digest;
  }

  /** Verdicts are kept when a judgement pauses for another pack: it reads the object again and resumes where it stopped. */
  async #judgeInTurns(packs: PackStore, space: Space, pack: Generation, sizes: SizeRule) {
    let left: RecordSorter | undefined;
    const judge = async (object: PackObject, place: JudgingPlace) => {
      const sorter = left?.isOf(object) === true ? left : new RecordSorter(object, pack, sizes, this.#unzstd);
      // A failed read starts again.
      left = undefined;
      const judged = await judgeObject(object, sorter, place);
      // Paused judgements keep some MiB each: beyond 16 they start again.
      if (judged === 'gave way' && this.#resting < 16) left = sorter;
      return judged;
    };
    for (let isAgain = false; ; isAgain = true) {
      const place = await this.#enter(space, isAgain, left !== undefined);
      try {
        const judged = await packs.inspect(space, pack, (object) => judge(object, place));
        if (judged !== 'gave way') return judged;
      } finally {
        place.leave();
      }
    }
  }

  async #enter(space: Space, isAgain: boolean, isResting: boolean): Promise<JudgingPlace> {
    if (isResting) this.#resting += 1;
    try {
      return await this.#turns.enter(space, isAgain);
    } finally {
      if (isResting) this.#resting -= 1;
    }
  }
}

async function judgeObject(
  object: PackObject,
  sorter: RecordSorter,
  place: JudgingPlace,
): Promise<JudgedPack | 'gave way'> {
  const reader = new PackReader(object.bytes);
  // A pack that is too long is known by its length: nothing of it is read.
  if (reader.fault !== undefined) return sorter.finish(reader.fault);
  let turnBytes = 0;
  for await (const piece of object.read()) {
    for (const record of reader.push(piece)) {
      const isNew = sorter.take(reader, record);
      // What came with several pieces is the reader's copy, else a view of this one.
      if (record.stored.buffer !== piece.buffer) releaseOwn(record.stored);
      turnBytes += isNew ? record.canonicalLength + RECORD_COST_BYTES : RECORD_COST_BYTES;
      // A small pack may unpack to very many bytes: others have their turn every 4 MiB.
      if (turnBytes < 4 * 1024 * 1024) continue;
      askCollector(turnBytes);
      if (!(await place.nextTurn(turnBytes))) return 'gave way';
      turnBytes = 0;
    }
    if (reader.fault !== undefined) break;
  }
  reader.end();
  return sorter.finish(reader.fault);
}

function releaseOwn(bytes: Uint8Array): void {
  const isAlone = bytes.length === bytes.buffer.byteLength;
  // Fewer bytes may stand in memory that the runtime shares out.
  if (isAlone || bytes.length >= 64 * 1024) releaseBytes(bytes);
}

/** Sorts the records of one object, which may be read several times, into good ones and rejected ones. */
class RecordSorter {
  readonly #object: PackObject;
  readonly #pack: Generation;
  readonly #rules: RecordJudge;
  readonly #tooLarge: ReadonlyMap<number, PackRejection>;
  /** of the record that is judged now */
  #unpacked: Uint8Array | undefined;
  readonly #hashes: Hash[] = [];
  readonly #good = new Map<Hash, JudgedRecord>();
  readonly #rejections: PackRejection[] = [];

  constructor(object: PackObject, pack: Generation, sizes: SizeRule, unzstd: Unzstd) {
    this.#object = object;
    this.#pack = pack;
    this.#tooLarge = 'tooLarge' in sizes ? sizes.tooLarge : new Map();
    this.#rules = {
      nodeBytesMax: 'tooLarge' in sizes ? PACK_NODE_BYTES_MAX : sizes.nodeBytesMax,
      sha256: sha256Hex,
      unzstd: (...frame) => {
        this.#unpacked = unzstd(...frame);
        return this.#unpacked;
      },
    };
  }

  /** Whether this is the object that was read before, and not another under the same key. */
  isOf(object: PackObject): boolean {
    const [one, other] = [object, this.#object].map((each) => each.integrityOf(NOTHING));
    return object.bytes === this.#object.bytes && Buffer.compare(one ?? NOTHING, other ?? NOTHING) === 0;
  }

  /** Returns whether the record was judged now, and not in an earlier reading. */
  take(reader: PackReader, record: PackRecord): boolean {
    if (record.index < this.#hashes.length) {
      const known = this.#good.get(record.hash);
      if (known !== undefined) reader.countRefs(record, known.refs.length / HASH_BYTES);
      return false;
    }
    this.#judge(reader, record);
    if (this.#unpacked !== undefined) releaseOwn(this.#unpacked);
    this.#unpacked = undefined;
    return true;
  }

  #judge(reader: PackReader, record: PackRecord): void {
    const { index, byte, hash, codec, stored, storedLength } = record;
    const tooLarge = this.#tooLarge.get(index);
    const { node, rejection } =
      tooLarge === undefined ? judgeRecord(record, this.#rules) : { rejection: tooLarge };
    if (rejection !== undefined) {
      this.#hashes.push(hash);
      this.#rejections.push({ ...rejection, index });
      return;
    }
    // A copy, because a view would keep all of the node in memory.
    const refs = new Uint8Array(node.refs);
    // The record that passes the limit of refs counts no more.
    if (!reader.countRefs(record, refs.length / HASH_BYTES)) return;
    this.#hashes.push(hash);
    this.#good.set(hash, {
      index,
      hash,
      size: node.content.length,
      canonicalSize: node.canonical.length,
      contentType: node.contentType,
      refs,
      place: { pack: this.#pack, offset: byte + RECORD_HEADER_BYTES, storedLength, codec },
      integrity: this.#object.integrityOf(stored),
    });
  }

  finish(fault: PackFault | undefined): JudgedPack {
    const good = this.#good;
    const ordered = childrenFirst([...good.keys()], (hash) => good.get(hash)?.refs);
    return {
      bytes: this.#object.bytes,
      verdicts: {
        hashes: Buffer.from(this.#hashes.join(''), 'hex'),
        rejections: this.#rejections,
        broken: fault,
      },
      records: ordered.map((hash) => good.get(hash) as JudgedRecord),
    };
  }
}
