/** The pages of core/upkeep-ports.ts on PostgreSQL. */
import { groupsOf } from '@holdfast/protocol';
import type { Generation, ObjectKey } from '../../core/model.ts';
import { isDamage } from '../../core/store-failure.ts';
import {
  type PageReads,
  ROTTEN_COUNT_MAX,
  type ScrubItem,
  type ScrubPosition,
  type Step,
  type Walk,
} from '../../core/upkeep-ports.ts';
import { listSpaces } from './list-spaces.ts';
import { packPages } from './packs/pack-reads.ts';
import { findNodesAround, scrubItemFromSql } from './scrub-around.ts';
import type { SpaceKeys } from './space-keys.ts';
import { spaceKeyFromSql, spacesFromSql } from './space-names.ts';
import { SQL } from './statements.ts';
import { SweepWalk } from './sweep-walk.ts';
import { findNote, findTombstones } from './tombstones.ts';
import { findUnseenUploads } from './unseen-uploads.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToHex, hexToBytea, type SqlRow, type SqlValue } from './wire/sql-values.ts';

/** before all that there are */
const NO_SPACE = '0'.repeat(32);

/** `clock`: an instant that takes the place of the database's clock. */
export function makePages(pool: PostgresPool, keys: SpaceKeys, clock: () => number | null): PageReads {
  const read = async (sql: string, parameters: readonly SqlValue[]): Promise<readonly SqlRow[]> =>
    (await pool.read('reading', sql, parameters)).rows;
  const sweepWalk = new SweepWalk(pool);
  const scrub = new ScrubReads(pool, clock);
  return {
    spaces: (wanted) => listSpaces(pool, wanted, clock()),
    spacesToSweep: ({ cutoffs, limit }) => sweepWalk.findSpaces(cutoffs, limit),
    nodesToScrub: (walk) => scrub.find(walk),
    rottenSpaces: async ({ after, limit }) => {
      const rows = await read(SQL.findRottenSpaces, [after ?? NO_SPACE, limit, ROTTEN_COUNT_MAX]);
      return spacesFromSql(rows).map(({ space, row }) => ({
        ...{ space, nodes: row.count as number, position: spaceKeyFromSql(row.space) },
      }));
    },
    rottenNodes: async ({ space, limit }) => {
      const rows = await read(SQL.listRottenNodes, [keys.of(space), limit]);
      return rows.map(({ hash }) => byteaToHex(hash));
    },
    unseenUploads: (walk) => findUnseenUploads((given) => read(SQL.findUnseenUploads, given), walk),
    ...packPages(pool, keys),
    knownGenerations: (wanted) => findKnownGenerations(read, wanted),
    tombstones: (generations) => findTombstones(pool, generations),
    note: (name) => findNote(pool, name),
  };
}

class ScrubReads {
  readonly #pool: PostgresPool;
  readonly #clock: () => number | null;
  /** where a step of the scrub met damage */
  #damagedAt: ScrubPosition | undefined;

  constructor(pool: PostgresPool, clock: () => number | null) {
    this.#pool = pool;
    this.#clock = clock;
  }

  async find({ after, limit }: Walk): Promise<Step<ScrubItem>> {
    const [key = '', hash = ''] = (after ?? `${NO_SPACE}.`).split('.');
    try {
      const { rows } = await this.#pool.read('reading', SQL.findNodesToScrub, [key, hexToBytea(hash), limit]);
      const items = spacesFromSql(rows).map(({ space, row }) =>
        scrubItemFromSql(space, spaceKeyFromSql(row.space), row),
      );
      const last = rows.length < limit ? undefined : rows.at(-1);
      return { items, next: last && `${spaceKeyFromSql(last.space)}.${byteaToHex(last.hash)}` };
    } catch (error) {
      if (!isDamage(error)) throw error;
      // It is said once, and the next step goes around it.
      const isSaid = this.#damagedAt === `${key}.${hash}`;
      this.#damagedAt = `${key}.${hash}`;
      if (!isSaid) throw error;
      return findNodesAround(this.#pool, { key, hash }, limit, this.#clock());
    }
  }
}

async function findKnownGenerations(
  read: (sql: string, parameters: readonly SqlValue[]) => Promise<readonly SqlRow[]>,
  keys: readonly ObjectKey[],
): Promise<ReadonlySet<Generation>> {
  const known = new Set<Generation>();
  for (const some of groupsOf(keys, 1_000)) {
    const rows = await read(SQL.findKnownGenerations, [
      some.map(({ spaceKey }) => spaceKey),
      some.map(({ generation }) => hexToBytea(generation)),
    ]);
    for (const row of rows) known.add(byteaToHex(row.generation));
  }
  return known;
}
