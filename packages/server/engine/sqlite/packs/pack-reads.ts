/** core/packs/pack-ports.ts PackReads on SQLite, by the integer id of a Space. */
import type { ContentRow, Generation, Space } from '../../../core/model.ts';
import type { PackId, PackRow, PackVerdicts } from '../../../core/packs/pack-model.ts';
import type {
  CompactablePack,
  CompactionWanted,
  ContentsWanted,
  SpacesWanted,
  SpaceToPack,
} from '../../../core/packs/pack-ports.ts';
import { contentFromSql, hexToBytes, isContentSound } from '../rows.ts';
import type { ReadStatements } from '../statements.ts';
import { isPackSound, packFromSql, useFromSql, verdictsFromSql } from './pack-codecs.ts';

export class SqlitePackReads {
  readonly #sql: ReadStatements;

  constructor(sql: ReadStatements) {
    this.#sql = sql;
  }

  findPack(space: number, id: PackId): PackRow | undefined {
    const row = this.#sql.findPack.get(space, hexToBytes(id));
    return row === null ? undefined : packFromSql(row);
  }

  findVerdicts(space: number, generation: Generation): PackVerdicts | undefined {
    const row = this.#sql.findVerdicts.get(space, hexToBytes(generation));
    return row === null ? undefined : verdictsFromSql(row);
  }

  findPacksToCompact(
    { deadSince, limit }: CompactionWanted,
    readSpace: (id: number) => Space,
  ): readonly CompactablePack[] {
    const { findOverduePacks, findGainfulPacks } = this.#sql;
    const overdue = findOverduePacks.all(deadSince, limit);
    const all = [...overdue, ...findGainfulPacks.all(deadSince, limit - overdue.length)];
    const rows = all.filter(isPackSound);
    return rows.map((row) => ({
      space: readSpace(row.space as number),
      pack: packFromSql(row),
      use: useFromSql(row),
    }));
  }

  readDeadBytes(): number {
    return (this.#sql.readDeadBytes.get()?.bytes as number | undefined) ?? 0;
  }

  findRecords(space: number, pack: Generation, after: number, limit: number): readonly ContentRow[] {
    const rows = this.#sql.findPackRecords.all(space, hexToBytes(pack), after, limit);
    return rows.map((row) => contentFromSql(row));
  }

  findSpacesToPack(
    { after, before, contentsMin, limit }: SpacesWanted,
    readSpace: (id: number) => Space,
  ): readonly SpaceToPack[] {
    const { nextSpaceToPack, hasContentsToPack } = this.#sql;
    const found: SpaceToPack[] = [];
    for (let id = Number(after ?? 0); found.length < limit; ) {
      const row = nextSpaceToPack.get(id);
      if (row === null) break;
      id = row.space as number;
      const isWorthPacking = hasContentsToPack.get(id, hexToBytes(before), contentsMin - 1) !== null;
      found.push({ space: readSpace(id), isWorthPacking, position: String(id) });
    }
    return found;
  }

  findContentsToPack(space: number, { after, before, limit }: ContentsWanted): readonly ContentRow[] {
    const rows = this.#sql.findContentsToPack.all(space, hexToBytes(after), hexToBytes(before), limit);
    return rows.filter(isContentSound).map((row) => contentFromSql(row));
  }

  /** Whether its object may still be there. */
  isKnown(generation: Generation): boolean {
    return this.#sql.isPackKnown.get(hexToBytes(generation)) !== null;
  }

  /** Whether its object is known to be complete. */
  isFinished(generation: Generation): boolean {
    return typeof this.#sql.isPackKnown.get(hexToBytes(generation))?.bytes === 'number';
  }
}
