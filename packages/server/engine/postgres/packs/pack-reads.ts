import type { ContentRow, Generation, Space, SpaceKey } from '../../../core/model.ts';
import type { PackId, PackRow, PackVerdicts } from '../../../core/pack-model.ts';
import type { PackReads } from '../../../core/pack-ports.ts';
import type { PageReads } from '../../../core/upkeep-ports.ts';
import { findProvenContent } from '../rows.ts';
import type { SpaceKeys } from '../space-names.ts';
import { spaceKeyFromSql, spacesFromSql } from '../space-names.ts';
import { SQL } from '../statements.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import { hexToBytea, type SqlRow, type SqlValue } from '../wire/wire-messages.ts';
import { isUseProven, packFromSql, readPack, unprovenUse, verdictsFromSql } from './pack-rows.ts';

/** before all that there are */
const NO_SPACE = '0'.repeat(32);

/** Records that are damaged are not moved: check names their nodes. */
const provenContents = (space: SpaceKey, rows: readonly SqlRow[]): ContentRow[] =>
  rows.map((row) => findProvenContent(space, row)).filter((content) => content !== undefined);

export class PostgresPackReads implements PackReads {
  readonly #pool: PostgresPool;
  readonly #keys: SpaceKeys;

  constructor(pool: PostgresPool, keys: SpaceKeys) {
    this.#pool = pool;
    this.#keys = keys;
  }

  async findPack(space: Space, id: PackId): Promise<PackRow | undefined> {
    const [row] = await this.#read(space, SQL.findPack, [hexToBytea(id)]);
    return row && packFromSql(this.#keys.of(space), row);
  }

  async findPackVerdicts(space: Space, generation: Generation): Promise<PackVerdicts | undefined> {
    const [row] = await this.#read(space, SQL.findVerdicts, [hexToBytea(generation)]);
    return row && verdictsFromSql(this.#keys.of(space), generation, row);
  }

  async readDeadBytes(): Promise<number> {
    const { rows } = await this.#pool.read('counting dead bytes of packs', SQL.readDeadBytes, []);
    return (rows[0]?.bytes as number | undefined) ?? 0;
  }

  async #read(space: Space, sql: string, parameters: readonly SqlValue[]): Promise<readonly SqlRow[]> {
    return (await this.#pool.read('reading', sql, [this.#keys.of(space), ...parameters], space)).rows;
  }
}

export function packPages(
  pool: PostgresPool,
  keys: SpaceKeys,
): Pick<PageReads, 'packsToCompact' | 'packRecords' | 'spacesToPack' | 'contentsToPack'> {
  const findContents = async (
    space: Space,
    sql: string,
    range: readonly SqlValue[],
  ): Promise<ContentRow[]> => {
    const { rows } = await pool.read('reading', sql, [keys.of(space), ...range], space);
    return provenContents(keys.of(space), rows);
  };
  return {
    packsToCompact: async ({ deadSince, limit }) => {
      const values = [deadSince, limit];
      const { rows } = await pool.read('looking for packs to compact', SQL.findPacksToCompact, values);
      // Those that are damaged are passed over: check names them.
      return spacesFromSql(rows).flatMap(({ space, row }) => {
        const key = spaceKeyFromSql(row.space);
        const { pack, isProven } = readPack(key, row);
        const found = isProven && isUseProven(key, pack.generation, row);
        return found ? [{ space, pack, use: unprovenUse(row) }] : [];
      });
    },
    packRecords: ({ space, pack, after, limit }) =>
      findContents(space, SQL.findPackRecords, [hexToBytea(pack), after, limit]),
    spacesToPack: async ({ after, before, contentsMin, limit }) => {
      const parameters = [after ?? NO_SPACE, limit, hexToBytea(before), contentsMin - 1];
      const { rows } = await pool.read('looking for small nodes', SQL.findSpacesToPack, parameters);
      return spacesFromSql(rows).map(({ space, row }) => ({
        space,
        isWorthPacking: row.is_worth_packing as boolean,
        position: row.space as string,
      }));
    },
    contentsToPack: ({ space, after, before, limit }) =>
      findContents(space, SQL.findContentsToPack, [hexToBytea(after), hexToBytea(before), limit]),
  };
}
