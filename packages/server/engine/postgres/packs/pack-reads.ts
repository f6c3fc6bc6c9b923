/** core/packs/pack-ports.ts PackReads on PostgreSQL. */
import type { Hash } from '@holdfast/protocol';
import type { ContentRow, Generation, NodeRow, Space } from '../../../core/model.ts';
import type { PackId, PackRow, PackVerdicts } from '../../../core/packs/pack-model.ts';
import type {
  CompactablePack,
  CompactionWanted,
  ContentsWanted,
  SpacesWanted,
  SpaceToPack,
} from '../../../core/packs/pack-ports.ts';
import { contentFromSql, hashesToSql, joinedContentFromSql, nodeFromSql, spaceFromSql } from '../rows.ts';
import type { SpaceKeys } from '../space-keys.ts';
import { SQL } from '../statements.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import { hexToBytea, type SqlRow, type SqlValue } from '../wire/sql-values.ts';
import { packFromSql, useFromSql, verdictsFromSql } from './pack-rows.ts';

const READING = 'reading';
/** before all that there are */
const NO_SPACE = '0'.repeat(32);
/** nodes of one statement: each may have 8 KiB of refs, and an answer is in memory whole */
const NODES_PER_STATEMENT = 1_024;

type FoundNode = { readonly node: NodeRow; readonly content: ContentRow | undefined };

export class PostgresPackReads {
  readonly #pool: PostgresPool;
  readonly #keys: SpaceKeys;

  constructor(pool: PostgresPool, keys: SpaceKeys) {
    this.#pool = pool;
    this.#keys = keys;
  }

  async findNodesWithContent(
    space: Space,
    hashes: readonly Hash[],
  ): Promise<readonly (FoundNode | undefined)[]> {
    const found = new Map<Hash, FoundNode>();
    for (let from = 0; from < hashes.length; from += NODES_PER_STATEMENT) {
      const some = hashes.slice(from, from + NODES_PER_STATEMENT);
      for (const row of await this.#read(space, SQL.findNodesWithContent, [hashesToSql(some)])) {
        const node = nodeFromSql(row);
        found.set(node.hash, { node, content: joinedContentFromSql(row) });
      }
    }
    return hashes.map((hash) => found.get(hash));
  }

  async findPack(space: Space, id: PackId): Promise<PackRow | undefined> {
    const [row] = await this.#read(space, SQL.findPack, [hexToBytea(id)]);
    return row && packFromSql(row);
  }

  async findPackVerdicts(space: Space, generation: Generation): Promise<PackVerdicts | undefined> {
    const [row] = await this.#read(space, SQL.findVerdicts, [hexToBytea(generation)]);
    return row && verdictsFromSql(row);
  }

  async findPacksToCompact({ deadSince, limit }: CompactionWanted): Promise<readonly CompactablePack[]> {
    const { rows } = await this.#pool.read('looking for packs to compact', SQL.findPacksToCompact, [
      deadSince,
      limit,
    ]);
    return rows.map((row) => ({ space: spaceFromSql(row), pack: packFromSql(row), use: useFromSql(row) }));
  }

  async readDeadBytes(): Promise<number> {
    const { rows } = await this.#pool.read('counting dead bytes of packs', SQL.readDeadBytes, []);
    return (rows[0]?.bytes as number | undefined) ?? 0;
  }

  async findPackRecords(
    space: Space,
    pack: Generation,
    after: number,
    limit: number,
  ): Promise<readonly ContentRow[]> {
    const rows = await this.#read(space, SQL.findPackRecords, [hexToBytea(pack), after, limit]);
    return rows.map(contentFromSql);
  }

  async findSpacesToPack({
    after,
    before,
    contentsMin,
    limit,
  }: SpacesWanted): Promise<readonly SpaceToPack[]> {
    const parameters = [after ?? NO_SPACE, limit, hexToBytea(before), contentsMin - 1];
    const { rows } = await this.#pool.read('looking for small nodes', SQL.findSpacesToPack, parameters);
    return rows.map((row) => ({
      space: spaceFromSql(row),
      isWorthPacking: row.is_worth_packing as boolean,
      position: row.space as string,
    }));
  }

  async findContentsToPack(
    space: Space,
    { after, before, limit }: ContentsWanted,
  ): Promise<readonly ContentRow[]> {
    const range = [hexToBytea(after), hexToBytea(before), limit];
    return (await this.#read(space, SQL.findContentsToPack, range)).map(contentFromSql);
  }

  async #read(space: Space, sql: string, parameters: readonly SqlValue[]): Promise<readonly SqlRow[]> {
    return (await this.#pool.read(READING, sql, [this.#keys.of(space), ...parameters], space)).rows;
  }
}
