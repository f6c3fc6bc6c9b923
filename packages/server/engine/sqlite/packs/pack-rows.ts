/** core/pack-ports.ts PackVerbs on SQLite, and the content rows whose live records they count. */
import type { Hash } from '@holdfast/protocol';
import type { ContentRow, Generation, PackPlace, UploadRow } from '../../../core/model.ts';
import type { PackId, PackRow, PackUse, PackVerdicts } from '../../../core/pack-model.ts';
import type { PackVerbs, RecordMove, SweptPack } from '../../../core/pack-ports.ts';
import { changeUse, countBytesToCompact, UNUSED, type UseChange } from '../../../core/packs/own-packs.ts';
import { contentSum, packSum, packUseSum } from '../../../core/rows/row-sums.ts';
import { contentFromSql, damagedRow, findSoundContent, hexToBytes } from '../rows.ts';
import { NO_SPACE } from '../statements.ts';
import type { WriteScope } from '../write-scope.ts';
import {
  isPackSound,
  packFactsFromSql,
  packFromSql,
  packGuards,
  packToSql,
  useFromSql,
  verdictsFromSql,
  verdictsToSql,
} from './pack-codecs.ts';

const AS_READ = 'the row of a pack is changed from exactly what was read';

/** The transaction that packs are part of, as far as they need it. */
interface Owner {
  /** undefined: the Space has no row */
  readonly findId: () => number | undefined;
  /** the Space's id, which its first write makes */
  readonly write: () => number;
  readonly findUpload: (hash: Hash) => UploadRow | undefined;
}

export class SqlitePackRows implements PackVerbs {
  readonly #scope: WriteScope;
  readonly #owner: Owner;
  /** written once for each pack, when a read needs it or the body has ended */
  readonly #changes = new Map<Generation, UseChange>();
  #isNoted = false;

  constructor(scope: WriteScope, owner: Owner) {
    this.#scope = scope;
    this.#owner = owner;
  }

  findPack(id: PackId): PackRow | undefined {
    const row = this.#scope.find(this.#scope.sql.findPack, this.#id, hexToBytes(id));
    return row && packFromSql(row);
  }

  findOpenPack(asked: Uint8Array): PackRow | undefined {
    const row = this.#scope.find(this.#scope.sql.findOpenPack, this.#id, asked, this.#scope.now);
    return row && packFromSql(row);
  }

  insert(row: PackRow): void {
    const id = this.#owner.write();
    const key = [hexToBytes(row.generation), id, hexToBytes(row.id)] as const;
    this.#scope.writeOne(AS_READ, this.#scope.sql.insertPack, ...key, ...packToSql(row), packSum(id, row));
    this.#scope.recountUploads(id);
  }

  update(before: PackRow, after: PackRow): void {
    const id = this.#owner.write();
    const key = [hexToBytes(before.generation), id, hexToBytes(before.id)] as const;
    const change = packSum(id, after) - packSum(id, before);
    const values = [...packToSql(after), ...packGuards(before), change];
    this.#scope.writeOne(AS_READ, this.#scope.sql.updatePack, ...key, ...values);
    this.#note(before.generation, UNCHANGED);
    this.#scope.recountUploads(id);
  }

  delete(before: PackRow): void {
    this.#writeUses();
    const id = this.#owner.write();
    const generation = hexToBytes(before.generation);
    this.#scope.write(this.#scope.sql.deleteVerdicts, generation);
    const rule = 'a pack is forgotten when no content row names it';
    this.#scope.writeOne(rule, this.#scope.sql.deletePack, id, generation);
    this.#scope.recountUploads(id);
  }

  findUploads(hashes: readonly Hash[]): readonly (UploadRow | undefined)[] {
    // The first push of a tree in packs meets no upload at all.
    const hasAny = this.#scope.find(this.#scope.sql.findAnyUpload, this.#id) !== undefined;
    return hashes.map((hash) => (hasAny ? this.#owner.findUpload(hash) : undefined));
  }

  findUse(generation: Generation): PackUse {
    this.#writeUses();
    const row = this.#scope.find(this.#scope.sql.findUse, hexToBytes(generation), this.#id);
    if (row === undefined) return UNUSED;
    packFromSql(row);
    return useFromSql(row);
  }

  findVerdicts(generation: Generation): PackVerdicts | undefined {
    const row = this.#scope.find(this.#scope.sql.findVerdicts, this.#id, hexToBytes(generation));
    return row && verdictsFromSql(row);
  }

  setVerdicts(generation: Generation, verdicts: PackVerdicts): void {
    this.#owner.write();
    const { setVerdicts } = this.#scope.sql;
    this.#scope.writeOne(AS_READ, setVerdicts, ...verdictsToSql(generation, verdicts));
  }

  moveRecords(moves: readonly RecordMove[]): number {
    const id = this.#owner.write();
    let count = 0;
    for (const { generation, from, to, integrity } of moves) {
      const row = this.#scope.find(this.#scope.sql.findContent, hexToBytes(generation));
      if (row === undefined) continue;
      const moved = { ...contentFromSql(row, generation), packed: to, integrity };
      const place = [hexToBytes(to.pack), to.offset, to.storedLength, to.codec] as const;
      const changes = this.#scope.write(
        this.#scope.sql.moveRecord,
        ...[hexToBytes(generation), id, ...place],
        ...[integrity, hexToBytes(from.pack), from.offset, contentSum(id, moved)],
      );
      if (changes === 0) continue;
      count += 1;
      this.#note(from.pack, died(from.storedLength));
      this.#note(to.pack, born(to.storedLength));
    }
    if (count > 0) this.#scope.rows.noteMoved();
    return count;
  }

  findDue(abandonedAt: number, limit: number): readonly SweptPack[] {
    this.#writeUses();
    const { findAbandonedPacks, findEmptiedPacks, findForgettablePacks } = this.#scope.sql;
    const found = [
      ...this.#scope.findAll(findEmptiedPacks, this.#id, limit),
      ...this.#scope.findAll(findAbandonedPacks, this.#id, abandonedAt, limit),
      ...this.#scope.findAll(findForgettablePacks, this.#id, abandonedAt, limit),
    ];
    return found
      .filter(isPackSound)
      .slice(0, limit)
      .map((row) => ({ pack: packFromSql(row), use: useFromSql(row) }));
  }

  /** A content row whose bytes are a record of a pack. Returns 0 if the generation has content already. */
  insertContent(row: ContentRow, { pack, offset, storedLength, codec }: PackPlace): number {
    const id = this.#owner.write();
    const changes = this.#scope.write(
      this.#scope.sql.insertPackedContent,
      ...[hexToBytes(row.generation), id, row.canonicalSize, row.integrity, null, row.urlExpiresAt],
      ...[hexToBytes(pack), offset, storedLength, codec, contentSum(id, row)],
    );
    if (changes > 0) this.#note(pack, born(storedLength));
    return changes;
  }

  deleteContent(generation: Generation): void {
    const id = this.#owner.write();
    const row = this.#scope.find(this.#scope.sql.deleteContent, hexToBytes(generation), id);
    // If the row was damaged, its pack is unknown, and the count of that pack stays too high.
    const packed = row && findSoundContent(row)?.packed;
    if (packed !== undefined) this.#note(packed.pack, died(packed.storedLength));
  }

  get #id(): number {
    return this.#owner.findId() ?? NO_SPACE;
  }

  #note(pack: Generation, change: UseChange): void {
    const known = this.#changes.get(pack);
    this.#changes.set(pack, known === undefined ? change : addChange(known, change));
    if (this.#isNoted) return;
    this.#isNoted = true;
    this.#scope.beforeKeep(() => this.#writeUses());
  }

  #writeUses(): void {
    const { findUse, setUse } = this.#scope.sql;
    for (const [generation, change] of this.#changes) {
      const key = hexToBytes(generation);
      const row = this.#scope.find(findUse, key, this.#id);
      if (row === undefined || !isPackSound(row)) {
        // A count that is too high keeps the pack. A new record needs an intact pack.
        if (change.hasCome) throw damagedRow('pack', generation);
        continue;
      }
      const pack = packFactsFromSql(row);
      const before = useFromSql(row);
      const use = changeUse(before, pack, change, this.#scope.now);
      const bytes = countBytesToCompact(pack, use);
      const sum = packUseSum(use) - packUseSum(before);
      const values = [use.liveRecords, use.liveBytes, use.firstDeadAt, bytes, sum] as const;
      this.#scope.writeOne(AS_READ, setUse, key, ...values);
    }
    this.#changes.clear();
  }
}

const UNCHANGED: UseChange = { liveRecords: 0, liveBytes: 0, hasCome: false, hasDied: false };

const born = (bytes: number): UseChange => ({
  ...UNCHANGED,
  liveRecords: 1,
  liveBytes: bytes,
  hasCome: true,
});

const died = (bytes: number): UseChange => ({
  ...UNCHANGED,
  liveRecords: -1,
  liveBytes: -bytes,
  hasDied: true,
});

const addChange = (left: UseChange, right: UseChange): UseChange => ({
  liveRecords: left.liveRecords + right.liveRecords,
  liveBytes: left.liveBytes + right.liveBytes,
  hasCome: left.hasCome || right.hasCome,
  hasDied: left.hasDied || right.hasDied,
});
