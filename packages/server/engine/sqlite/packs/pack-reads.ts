/** core/pack-ports.ts PackReads on SQLite, by the integer ids of Spaces. */
import type { ContentRow, Generation, Space } from '../../../core/model.ts';
import type { PackId, PackRow, PackVerdicts } from '../../../core/pack-model.ts';
import type {
  CompactablePack,
  CompactionWanted,
  ContentsWanted,
  PackReads,
  SpacesWanted,
  SpaceToPack,
} from '../../../core/pack-ports.ts';
import { contentFromSql, hexToBytes, isContentSound } from '../rows.ts';
import type { ReadStatements } from '../statements.ts';
import { isPackSound, packFromSql, useFromSql, verdictsFromSql } from './pack-codecs.ts';

interface PackReadOptions {
  readonly sql: ReadStatements;
  read<T>(work: () => T): T;
  /** Several statements see the same commit. */
  readAtOneInstant<T>(work: () => T): T;
  idOf(space: Space): number;
  readSpace(id: number): Space;
}

export class SqlitePackReads implements PackReads {
  readonly #sql: ReadStatements;
  readonly #rows: PackReadOptions;

  constructor(rows: PackReadOptions) {
    this.#sql = rows.sql;
    this.#rows = rows;
  }

  findPack(space: Space, id: PackId): PackRow | undefined {
    return this.#rows.read(() => {
      const row = this.#sql.findPack.get(this.#rows.idOf(space), hexToBytes(id));
      return row === null ? undefined : packFromSql(row);
    });
  }

  findPackVerdicts(space: Space, generation: Generation): PackVerdicts | undefined {
    return this.#rows.read(() => {
      const row = this.#sql.findVerdicts.get(this.#rows.idOf(space), hexToBytes(generation));
      return row === null ? undefined : verdictsFromSql(row);
    });
  }

  findPacksToCompact({ deadSince, limit }: CompactionWanted): readonly CompactablePack[] {
    const { findOverduePacks, findGainfulPacks } = this.#sql;
    return this.#rows.read(() => {
      const overdue = findOverduePacks.all(deadSince, limit);
      const all = [...overdue, ...findGainfulPacks.all(deadSince, limit - overdue.length)];
      return all.filter(isPackSound).map((row) => ({
        space: this.#rows.readSpace(row.space as number),
        pack: packFromSql(row),
        use: useFromSql(row),
      }));
    });
  }

  readDeadBytes(): number {
    return this.#rows.read(() => (this.#sql.readDeadBytes.get()?.bytes as number | undefined) ?? 0);
  }

  findPackRecords(space: Space, pack: Generation, after: number, limit: number): readonly ContentRow[] {
    return this.#rows.read(() => {
      const rows = this.#sql.findPackRecords.all(this.#rows.idOf(space), hexToBytes(pack), after, limit);
      return rows.map((row) => contentFromSql(row));
    });
  }

  findSpacesToPack({ after, before, contentsMin, limit }: SpacesWanted): readonly SpaceToPack[] {
    const { nextSpaceToPack, hasContentsToPack } = this.#sql;
    return this.#rows.readAtOneInstant(() => {
      const found: SpaceToPack[] = [];
      for (let id = Number(after ?? 0); found.length < limit; ) {
        const row = nextSpaceToPack.get(id);
        if (row === null) break;
        id = row.space as number;
        const isWorthPacking = hasContentsToPack.get(id, hexToBytes(before), contentsMin - 1) !== null;
        found.push({ space: this.#rows.readSpace(id), isWorthPacking, position: String(id) });
      }
      return found;
    });
  }

  findContentsToPack(space: Space, { after, before, limit }: ContentsWanted): readonly ContentRow[] {
    const range = [hexToBytes(after), hexToBytes(before), limit] as const;
    return this.#rows.read(() => {
      const rows = this.#sql.findContentsToPack.all(this.#rows.idOf(space), ...range);
      return rows.filter(isContentSound).map((row) => contentFromSql(row));
    });
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
