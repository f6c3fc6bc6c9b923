/** core/pack-ports.ts PackReads on SQLite, by the integer ids of Spaces, and the pages of packs. */
import type { Generation, Space } from '../../../core/model.ts';
import type { PackId, PackRow, PackVerdicts } from '../../../core/pack-model.ts';
import type { PackReads, SpacesWanted, SpaceToPack } from '../../../core/pack-ports.ts';
import type { Pages } from '../../../core/upkeep-ports.ts';
import { contentFromSql, findSoundContent, hexToBytes } from '../rows.ts';
import type { ReadStatements } from '../statements.ts';
import { isPackSound, packFromSql, useFromSql, verdictsFromSql } from './pack-codecs.ts';

export interface PageSources {
  readonly sql: ReadStatements;
  read<T>(work: () => T): T;
  /** Several statements see the same commit. */
  readAtOneInstant<T>(work: () => T): T;
  idOf(space: Space): number;
  /** undefined: its row is damaged */
  findSpace(id: number): Space | undefined;
}

/** PageReads of core/upkeep-ports.ts, at once. */
export type SqlitePages = { readonly [K in keyof Pages]: (wanted: Pages[K]['wanted']) => Pages[K]['page'] };

export class SqlitePackReads implements PackReads {
  readonly #sql: ReadStatements;
  readonly #rows: PageSources;

  constructor(rows: PageSources) {
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

  readDeadBytes(): number {
    return this.#rows.read(() => (this.#sql.readDeadBytes.get()?.bytes as number | undefined) ?? 0);
  }
}

export function packPages(
  sources: PageSources,
): Pick<SqlitePages, 'packsToCompact' | 'packRecords' | 'spacesToPack' | 'contentsToPack'> {
  const { sql, readAtOneInstant, idOf, findSpace } = sources;
  return {
    packsToCompact: ({ deadSince, limit }) => {
      const overdue = sql.findOverduePacks.all(deadSince, limit);
      const all = [...overdue, ...sql.findGainfulPacks.all(deadSince, limit - overdue.length)];
      return all.filter(isPackSound).flatMap((row) => {
        const space = findSpace(row.space as number);
        return space === undefined ? [] : [{ space, pack: packFromSql(row), use: useFromSql(row) }];
      });
    },
    packRecords: ({ space, pack, after, limit }) =>
      sql.findPackRecords.all(idOf(space), hexToBytes(pack), after, limit).map((row) => contentFromSql(row)),
    spacesToPack: (wanted) => readAtOneInstant(() => findSpacesToPack(sources, wanted)),
    contentsToPack: ({ space, after, before, limit }) =>
      sql.findContentsToPack
        .all(idOf(space), hexToBytes(after), hexToBytes(before), limit)
        .flatMap((row) => findSoundContent(row) ?? []),
  };
}

function findSpacesToPack(
  { sql, findSpace }: PageSources,
  { after, before, contentsMin, limit }: SpacesWanted,
): readonly SpaceToPack[] {
  const found: SpaceToPack[] = [];
  for (let id = Number(after ?? 0); found.length < limit; ) {
    const row = sql.nextSpaceToPack.get(id);
    // A number with a wrong high bit is not exact: the row would be met again for ever.
    if (row === null || (row.space as number) <= id) break;
    id = row.space as number;
    const space = findSpace(id);
    if (space === undefined) continue;
    const isWorthPacking = sql.hasContentsToPack.get(id, hexToBytes(before), contentsMin - 1) !== null;
    found.push({ space, isWorthPacking, position: String(id) });
  }
  return found;
}
