/** Lists Spaces with their counters. One Space whose rows are damaged hides no other, and keeps its place in the list. */
import { isEmpty } from '../../core/holdings.ts';
import { orIfDamaged } from '../../core/store-failure.ts';
import type { SpaceEntry, SpacePage } from '../../core/tenancy-ports.ts';
import { countersFromSql, holdingsFromSql } from './counters.ts';
import { spaceKeyFromSql, spacesFromSql } from './space-names.ts';
import { SQL } from './statements.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** before all that there are */
const NO_SPACE = '0'.repeat(32);

/** `clock`: an instant that takes the place of the database's clock. */
export async function listSpaces(
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
    const [counters, holdings] = [countersFromSql(row), holdingsFromSql(row)];
    return {
      ...{ space, counters, holdings },
      isPurged: row.purged === true && isEmpty(counters, holdings),
      position: spaceKeyFromSql(row.space),
    };
  });
}
