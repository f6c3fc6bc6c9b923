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
import type { Generation, PackRejection, Space } from './model.ts';
import { childrenFirst } from './order-nodes.ts';
import type { JudgedPack, JudgedRecord, PackJudge, PackObject, PackStore } from './pack-ports.ts';
import { sha256Hex } from './sha256.ts';

/** After this many bytes, unpacked, the garbage collector is called: by itself it lets them pile up. */
const COLLECT_BYTES = 16 * 1024 * 1024;
/** Canonical bytes that are judged before others have their turn: a small pack may unpack to very many. */
const TURN_BYTES = 4 * 1024 * 1024;

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Callers that ask for one pack at the same time share one reading of it. */
export class PackJudgements implements PackJudge {
  readonly #unzstd: Unzstd;
  readonly #underWay = new Map<Generation, Promise<JudgedPack | undefined>>();

  constructor(unzstd: Unzstd) {
    this.#unzstd = unzstd;
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
    const judging = packs
      .inspect(space, pack, (object) => judgeObject(object, pack, rules))
      .finally(() => this.#underWay.delete(pack));
    this.#underWay.set(pack, judging);
    return judging;
  }
}

async function judgeObject(object: PackObject, pack: Generation, rules: RecordJudge): Promise<JudgedPack> {
  const judge = new RecordSorter(object, pack, rules);
  const reader = new PackReader(object.bytes);
  // A pack that is too long is known by its length: nothing of it is read.
  if (reader.fault !== undefined) return judge.finish(reader.fault);
  let turnBytes = 0;
  let uncollectedBytes = 0;
  for await (const piece of object.read()) {
    for (const record of reader.push(piece)) {
      judge.take(reader, record);
      turnBytes += record.canonicalLength;
      if (turnBytes < TURN_BYTES) continue;
      uncollectedBytes += turnBytes;
      turnBytes = 0;
      await nextTurn();
      if (uncollectedBytes < COLLECT_BYTES) continue;
      uncollectedBytes = 0;
      Bun.gc(false);
    }
    if (reader.fault !== undefined) break;
  }
  reader.end();
  return judge.finish(reader.fault);
}

/** Sorts the records of one object into good ones and rejected ones. */
class RecordSorter {
  readonly #object: PackObject;
  readonly #pack: Generation;
  readonly #rules: RecordJudge;
  readonly #hashes: Hash[] = [];
  readonly #good = new Map<Hash, JudgedRecord>();
  readonly #rejections: PackRejection[] = [];

  constructor(object: PackObject, pack: Generation, rules: RecordJudge) {
    this.#object = object;
    this.#pack = pack;
    this.#rules = rules;
  }

  take(reader: PackReader, record: PackRecord): void {
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
