/** The pages of core/upkeep-ports.ts on PostgreSQL. */
import { groupsOf, type Hash } from '@holdfast/protocol';
import type { Generation, ObjectKey, Space } from '../../core/model.ts';
import { isDamage, orIfDamaged } from '../../core/store-failure.ts';
import type { SpaceEntry, SpacePage } from '../../core/tenancy-ports.ts';
import {
  type PageReads,
  ROTTEN_COUNT_MAX,
  type ScrubItem,
  type ScrubPosition,
  type Step,
  type UnseenUpload,
  type UnseenWalk,
  type Walk,
} from '../../core/upkeep-ports.ts';
import { isEmpty } from '../../core/usage-delta.ts';
import { holdingsFromSql } from '../rows/codecs.ts';
import { countersFromSql } from './counters.ts';
import { RowDamaged } from './damage.ts';
import { packPages } from './packs/pack-reads.ts';
import { areSlotsProven } from './row-sums.ts';
import { joinedContentFromSql, nodeFromSql } from './rows.ts';
import type { SpaceKeys } from './space-names.ts';
import { findSpaceInSql, spaceKeyFromSql, spacesFromSql } from './space-names.ts';
import { inspectSpace } from './space-snapshot.ts';
import { SQL } from './statements.ts';
import { SweepWalk } from './sweep-walk.ts';
import { findNote, findTombstones } from './tombstones.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToHex, hexToBytea, type SqlRow, type SqlValue } from './wire/wire-messages.ts';

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

/** Walks over uploads and open packs whose bytes no server has seen, by the end of their URLs: those that have ended are not read. */
async function findUnseenUploads(
  read: (parameters: readonly SqlValue[]) => Promise<readonly SqlRow[]>,
  { after, urlsEndAfter, limit }: UnseenWalk,
): Promise<Step<UnseenUpload>> {
  const [endsAt = 0, space = NO_SPACE, generation = NO_SPACE] = after?.split('.') ?? [];
  const isPast = Number(endsAt) <= urlsEndAfter;
  const place = isPast
    ? [urlsEndAfter + 1, NO_SPACE, hexToBytea(NO_SPACE)]
    : [Number(endsAt), space, hexToBytea(generation)];
  const rows = await read([...place, limit]);
  const items = spacesFromSql(rows).map(
    ({ space: name, row }): UnseenUpload => ({
      space: name,
      generation: byteaToHex(row.generation),
      of: row.hash === null ? { pack: byteaToHex(row.id) } : { hash: byteaToHex(row.hash) },
    }),
  );
  const last = rows.length < limit ? undefined : rows.at(-1);
  const next = last && `${last.ends_at}.${spaceKeyFromSql(last.space)}.${byteaToHex(last.generation)}`;
  return { items, next };
}

const SCRUBBING = 'scrubbing';
/** after all hashes of a Space */
const END = 'f'.repeat(64);

const FIND_SPACE =
  'SELECT space, app_id, space_id FROM spaces WHERE space >= $1::uuid ORDER BY space LIMIT 1';
const FIND_NEXT_SPACE =
  'SELECT space, app_id, space_id FROM spaces WHERE space > $1::uuid ORDER BY space LIMIT 1';

const scrubItemFromSql = (space: Space, key: string, row: SqlRow): ScrubItem => ({
  space,
  node: nodeFromSql(key, row),
  content: joinedContentFromSql(key, row),
  ...(row.row_sum === null ? { isUnsummed: true } : {}),
});

/** From the first node after `hash` in the Space `key`, or from the first Space after it that has nodes. */
async function findNodesAround(
  pool: PostgresPool,
  { key, hash }: { readonly key: string; readonly hash: Hash },
  limit: number,
  clock: number | null,
): Promise<{ items: readonly ScrubItem[]; next: ScrubPosition | undefined }> {
  let [found] = (await pool.read(SCRUBBING, FIND_SPACE, [key])).rows;
  while (found !== undefined) {
    const at = spaceKeyFromSql(found.space);
    const space = findSpaceInSql(found) as Space;
    const start = at === key ? hash : undefined;
    const page = await pool.lend((connection) =>
      inspectSpace(connection, at, clock, (snapshot) => snapshot.readNodesAround(start, limit)),
    );
    if (page.nodes.length + page.unreadable.length > 0) {
      const items: ScrubItem[] = [];
      for (const { row } of page.nodes) {
        const wanted = [at, hexToBytea(row.hash)];
        const [node] = (await pool.read(SCRUBBING, SQL.findNodeWithContent, wanted, space)).rows;
        if (node === undefined) continue;
        items.push(scrubItemFromSql(space, at, node));
      }
      return { items, next: `${at}.${page.next ?? END}` };
    }
    [found] = (await pool.read(SCRUBBING, FIND_NEXT_SPACE, [at])).rows;
  }
  return { items: [], next: undefined };
}

/** `clock`: an instant that takes the place of the database's clock. */
async function listSpaces(
  pool: PostgresPool,
  page: SpacePage,
  clock: number | null,
): Promise<readonly SpaceEntry[]> {
  return orIfDamaged(
    () => readPage(pool, page, clock, false),
    () => listOneByOne(pool, page, clock),
  );
}

async function listOneByOne(
  pool: PostgresPool,
  page: SpacePage,
  clock: number | null,
): Promise<readonly SpaceEntry[]> {
  const entries: SpaceEntry[] = [];
  while (entries.length < page.limit) {
    const one = { ...page, after: entries.at(-1)?.position ?? page.after, limit: 1 };
    const [entry] = await orIfDamaged(
      () => readPage(pool, one, clock, false),
      () =>
        orIfDamaged(
          () => readPage(pool, one, clock, true),
          (damage) => readNames(pool, one, damage),
        ),
    );
    if (entry === undefined) break;
    entries.push(entry);
  }
  return entries;
}

async function readNames(
  pool: PostgresPool,
  { appId, after = NO_SPACE, limit }: SpacePage,
  damage: unknown,
): Promise<readonly SpaceEntry[]> {
  const { rows } = await (appId === undefined
    ? pool.read('listing Spaces', SQL.findSpacesInTurn, [after, limit])
    : pool.read('listing Spaces', SQL.findSpacesOfAppInTurn, [after, limit, appId]));
  return spacesFromSql(rows).map(({ space, row }) => ({
    space,
    ...{ counters: undefined, holdings: undefined, isPurged: false, damage },
    position: spaceKeyFromSql(row.space),
  }));
}

async function readPage(
  pool: PostgresPool,
  { appId, after = NO_SPACE, limit }: SpacePage,
  clock: number | null,
  isDamaged: boolean,
): Promise<readonly SpaceEntry[]> {
  const ofAll = isDamaged ? SQL.listDamagedSpaces : SQL.listSpaces;
  const ofApp = isDamaged ? SQL.listDamagedSpacesOfApp : SQL.listSpacesOfApp;
  const values = [after, limit, clock];
  const { rows } = await (appId === undefined
    ? pool.read('listing Spaces', ofAll, values)
    : pool.read('listing Spaces', ofApp, [...values, appId]));
  return spacesFromSql(rows).map(({ space, row }) => {
    const key = spaceKeyFromSql(row.space);
    if (!areSlotsProven(row, new Map([[key, row.slots as string | null]])))
      throw new RowDamaged('usage_counters', 'the Space');
    const [counters, holdings] = [countersFromSql(row), holdingsFromSql(row)];
    return {
      ...{ space, counters, holdings },
      isPurged: row.purged === true && isEmpty(counters, holdings),
      position: key,
    };
  });
}
