/** Judges the object of a pack: streams it once, with one record in memory, and keeps what publication needs. */
import {
  type Hash,
  judgeRecord,
  type PackFault,
  PackReader,
  type PackRecord,
  RECORD_HEADER_BYTES,
  type RecordJudge,
  refsToHashes,
  type Unzstd,
} from '@holdfast/protocol';
import type { Generation, PackRejection, Space } from '../model.ts';
import { childrenFirst } from '../order-nodes.ts';
import { askCollector, releaseBytes } from '../release-bytes.ts';
import { sha256Hex } from '../sha256.ts';
import type {
  JudgedPack,
  JudgedRecord,
  JudgingPlace,
  JudgingTurns,
  PackJudge,
  PackObject,
  PackStore,
} from './pack-ports.ts';

/** Fewer bytes may stand in memory that the runtime shares out. */
const OWN_MEMORY_BYTES_MIN = 64 * 1024;
/** Canonical bytes that are judged before others have their turn: a small pack may unpack to very many. */
const TURN_BYTES = 4 * 1024 * 1024;
/** What a record costs beside its bytes, in bytes that are judged in the same time. */
const RECORD_COST_BYTES = 8 * 1024;

/** Callers that ask for one pack at the same time share one reading of it. */
export class PackJudgements implements PackJudge {
  readonly #unzstd: Unzstd;
  readonly #turns: JudgingTurns;
  readonly #underWay = new Map<Generation, Promise<JudgedPack | undefined>>();

  constructor(unzstd: Unzstd, turns: JudgingTurns) {
    this.#unzstd = unzstd;
    this.#turns = turns;
  }

  /** An object that was found stays true, because keys are written once. */
  async judge(
    packs: PackStore,
    space: Space,
    pack: Generation,
    nodeBytesMax: number,
  ): Promise<JudgedPack | undefined> {
    const earlier = await this.#underWay.get(pack);
    if (earlier !== undefined) return earlier;
    const shared = this.#underWay.get(pack);
    if (shared !== undefined) return shared;
    const rules = { nodeBytesMax, unzstd: this.#unzstd, sha256: sha256Hex };
    const judging = this.#judgeInTurn(packs, space, pack, rules).finally(() => this.#underWay.delete(pack));
    this.#underWay.set(pack, judging);
    return judging;
  }

  async #judgeInTurn(packs: PackStore, space: Space, pack: Generation, rules: RecordJudge) {
    const place = await this.#turns.enter(space);
    try {
      return await packs.inspect(space, pack, (object) => judgeObject(object, pack, rules, place));
    } finally {
      place.leave();
    }
  }
}

async function judgeObject(
  object: PackObject,
  pack: Generation,
  rules: RecordJudge,
  place: JudgingPlace,
): Promise<JudgedPack> {
  const judge = new RecordSorter(object, pack, rules);
  const reader = new PackReader(object.bytes);
  // A pack that is too long is known by its length: nothing of it is read.
  if (reader.fault !== undefined) return judge.finish(reader.fault);
  let turnBytes = 0;
  for await (const piece of object.read()) {
    for (const record of reader.push(piece)) {
      judge.take(reader, record);
      // What came with several pieces is the reader's copy, else a view of this one.
      if (record.stored.buffer !== piece.buffer) releaseOwn(record.stored);
      turnBytes += record.canonicalLength + RECORD_COST_BYTES;
      if (turnBytes < TURN_BYTES) continue;
      askCollector(turnBytes);
      await place.nextTurn(turnBytes);
      turnBytes = 0;
    }
    if (reader.fault !== undefined) break;
  }
  reader.end();
  return judge.finish(reader.fault);
}

function releaseOwn(bytes: Uint8Array): void {
  const isAlone = bytes.length === bytes.buffer.byteLength;
  if (isAlone || bytes.length >= OWN_MEMORY_BYTES_MIN) releaseBytes(bytes);
}

/** Sorts the records of one object into good ones and rejected ones. */
class RecordSorter {
  readonly #object: PackObject;
  readonly #pack: Generation;
  readonly #rules: RecordJudge;
  /** of the record that is judged now */
  #unpacked: Uint8Array | undefined;
  readonly #hashes: Hash[] = [];
  readonly #good = new Map<Hash, JudgedRecord>();
  readonly #rejections: PackRejection[] = [];

  constructor(object: PackObject, pack: Generation, rules: RecordJudge) {
    this.#object = object;
    this.#pack = pack;
    this.#rules = {
      ...rules,
      unzstd: (...frame) => {
        this.#unpacked = rules.unzstd(...frame);
        return this.#unpacked;
      },
    };
  }

  take(reader: PackReader, record: PackRecord): void {
    this.#judge(reader, record);
    if (this.#unpacked !== undefined) releaseOwn(this.#unpacked);
    this.#unpacked = undefined;
  }

  #judge(reader: PackReader, record: PackRecord): void {
    const { index, byte, hash, codec, stored, storedLength } = record;
    const { node, rejection } = judgeRecord(record, this.#rules);
    if (rejection !== undefined) {
      this.#hashes.push(hash);
      this.#rejections.push({ index, ...rejection });
      return;
    }
    // A copy, because a view would keep all of the node in memory; a Buffer's own slice is a view.
    const refs = new Uint8Array(node.refs);
    // The record that passes the limit of refs counts no more.
    if (!reader.countRefs(record, refsToHashes(refs).length)) return;
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
