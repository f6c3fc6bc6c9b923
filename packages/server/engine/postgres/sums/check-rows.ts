/**
 * Mends what row sums prove: a wrong bit, or counts by a recount. Removes a row only if its node has another one that holds as much.
 * Holds up no writer for more than one row.
 */
import type { RowDamage, RowLook } from '../../../core/inspection-ports.ts';
import type { Generation, Space } from '../../../core/model.ts';
import { findBit } from '../../../core/rows/find-bit.ts';
import { CONTRADICTED, rowDamage, unreachedBeside } from '../../../core/rows/row-advice.ts';
import { spaceKeyOf } from '../../../core/space-map.ts';
import { orIfDamaged } from '../../../core/store-failure.ts';
import { replaces } from '../../rows/replaced-row.ts';
import { IS_CHANGE_PROVEN, IS_TOTAL_PROVEN } from '../app-total-statements.ts';
import { compareAppTotals, PATIENCE_MS, readPatiently } from '../app-totals.ts';
import { ROOT_REF_STATEMENTS } from '../root-ref-statements.ts';
import { sumOfCounts, useSum } from '../row-sums.ts';
import { findProvenContent } from '../rows.ts';
import { spaceKeyFromSql, spacesFromSql } from '../space-names.ts';
import type { PostgresConnection } from '../wire/connection.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import { byteaToHex, byteaToText, type SqlRow, type SqlValue } from '../wire/wire-messages.ts';
import {
  findStored,
  mendRow,
  pagesOfTable,
  removeRow,
  type StoredRow,
  type StoredValues,
  toSqlRow,
} from './stored-rows.ts';
import {
  CONTENTS,
  DOMAINS,
  isProvenIn,
  lacksSum,
  NODES,
  PACKS,
  SUMMED_TABLES,
  type SummedTable,
} from './tables.ts';
import { FIND_UNREACHED } from './unreached.ts';

const FIND_SPACE = 'SELECT space, app_id, space_id FROM spaces WHERE space = $1';
/** $3 by how much it is off: writers change it and the rows together. */
const CORRECT_COUNT = `UPDATE domains SET balance_count = balance_count + $3::bigint, count_sum = ${sumOfCounts('0', '$3::bigint')}
  WHERE space = $1 AND domain = $2`;
const COUNTED_BY: readonly string[] = ['domains', 'balances'];

interface Mend {
  readonly values: StoredValues;
  /** what was wrong, in words */
  readonly fault: string;
}

export async function checkRows(pool: PostgresPool, look: RowLook): Promise<readonly RowDamage[]> {
  const found: RowDamage[] = [];
  for (const table of SUMMED_TABLES) {
    if (look.signal.aborted) break;
    if (table.name !== (look.onlyTable ?? table.name)) continue;
    look.onTable(table.name);
    for (const row of await findDamaged(pool, table, look)) {
      const settled = await settle(pool, table, row, look);
      // A record that is not believed counts as lost: the check of the bytes names its node, and says how that heals.
      if (settled !== undefined) found.push(settled);
    }
  }
  if (look.onlyTable !== undefined) return found;
  const findTables = async () =>
    (await countPatiently(pool, FIND_UNREACHED, [])).map(({ name }) => name as string);
  found.push(...(await unreachedBeside(found, findTables)));
  return [...found, ...(await checkBalanceCounts(pool, look, found)), ...(await checkAppTotals(pool, look))];
}

/** The number of balances of a domain is in no sum. In a Space with a wrong row of these a right number looks wrong. */
async function checkBalanceCounts(
  pool: PostgresPool,
  { signal, isRepaired }: RowLook,
  damage: readonly RowDamage[],
): Promise<readonly RowDamage[]> {
  const wrong = damage.filter(({ table, repaired }) => !repaired && COUNTED_BY.includes(table));
  const isWrong = (key: string): boolean =>
    wrong.some(({ space }) => space === undefined || spaceKeyOf(space) === key);
  const found: RowDamage[] = [];
  const look = async (): Promise<RowDamage[]> => {
    for await (const page of pagesOfTable(pool, DOMAINS)) {
      for (const { values } of page) {
        if (signal.aborted) return found;
        const row = toSqlRow(DOMAINS, values) as SqlRow;
        if (isWrong(spaceKeyFromSql(row.space))) continue;
        const key = [row.space as string, row.domain as string];
        const counting = [...key, Number.MAX_SAFE_INTEGER];
        const [counts] = await countPatiently(pool, ROOT_REF_STATEMENTS.countBalances, counting);
        const { balance_count: counted = null, found: there } = counts ?? {};
        if (counted === null || counted === there) continue;
        const more = (there as number) - (counted as number);
        if (isRepaired) await pool.run('mending a row', CORRECT_COUNT, [...key, more]);
        found.push(await describe(pool, DOMAINS, row, { fault: CONTRADICTED, repaired: isRepaired }));
      }
    }
    return found;
  };
  return orIfDamaged(look, () => found);
}

/** A row on a page that cannot be read is left to the look at all pages, which names the page. */
function findDamaged(
  pool: PostgresPool,
  table: SummedTable,
  { signal, onUnsummed }: RowLook,
): Promise<readonly StoredRow[]> {
  const damaged: StoredRow[] = [];
  return orIfDamaged(
    async () => {
      for await (const page of pagesOfTable(pool, table)) {
        damaged.push(...page.filter(({ values }) => !isProven(table, values)));
        onUnsummed?.(page.filter(({ values }) => lacksSum(table, values)).length);
        if (signal.aborted) break;
      }
      return damaged;
    },
    () => damaged,
  );
}

export function isProven(table: SummedTable, values: StoredValues): boolean {
  const row = toSqlRow(table, values);
  return row !== undefined && isProvenIn(table, row);
}

async function settle(
  pool: PostgresPool,
  table: SummedTable,
  row: StoredRow,
  { isRepaired }: RowLook,
): Promise<RowDamage | undefined> {
  const bit = findBitMend(table, row.values);
  let mend = bit ?? (await findCountMend(pool, table, row.values));
  const isRight = mend !== undefined && isProven(table, { ...row.values, ...mend.values });
  let repaired = isRepaired && isRight && (await mendRow(pool, table, row, (mend as Mend).values));
  const freed =
    isRepaired && bit !== undefined && !repaired && table === NODES
      ? await dropReplaced(pool, row, { ...row.values, ...bit.values })
      : undefined;
  repaired ||= freed !== undefined;
  if (isRepaired && bit !== undefined && !repaired) {
    // Another row has the key that this one had. Figures may stay where they are.
    mend = (await findCountMend(pool, table, row.values)) ?? bit;
    repaired = mend !== bit && (await mendRow(pool, table, row, mend.values));
  }
  if (!isRight && table === CONTENTS) return undefined;
  const right = toSqlRow(table, { ...row.values, ...mend?.values }) as SqlRow;
  return {
    ...(await describe(pool, table, right, { fault: isRight ? mend?.fault : undefined, repaired })),
    freed,
  };
}

/** An upload has made a new row of the node whose row had a wrong key. Resolves with the record that the old one named. */
async function dropReplaced(
  pool: PostgresPool,
  row: StoredRow,
  mended: StoredValues,
): Promise<Generation | undefined> {
  const stands = await findStored(pool, NODES, mended);
  const mayGo = stands !== undefined && isProven(NODES, stands.values) && replaces(stands.values, mended);
  if (!mayGo || !(await removeRow(pool, NODES, row, stands))) return undefined;
  return (mended.generation as Uint8Array).toHex();
}

/** `fault`: what can be mended; undefined: nothing */
async function describe(
  pool: PostgresPool,
  table: SummedTable,
  row: SqlRow,
  { fault, repaired }: { readonly fault: string | undefined; readonly repaired: boolean },
): Promise<RowDamage> {
  return rowDamage(`the row of ${table.name} ${nameOf(table, row)}`, {
    ...{ table: table.name, space: await findSpace(pool, row), fault, repaired },
    hash: 'hash' in table.columns ? byteaToHex(row.hash) : undefined,
    isProtecting: table.isProtecting,
  });
}

export function findBitMend(table: SummedTable, values: StoredValues): Mend | undefined {
  const bit = findBit(values, Object.keys(table.columns), (other) => isProven(table, other));
  return bit && { values: { [bit.column]: bit.value }, fault: `has one wrong bit in ${bit.column}` };
}

async function findCountMend(
  pool: PostgresPool,
  table: SummedTable,
  values: StoredValues,
): Promise<Mend | undefined> {
  const row = toSqlRow(table, values);
  const mend = row && (await (table === PACKS ? findPackMend : findFigureMend)(pool, row, table));
  return mend && { values: mend, fault: CONTRADICTED };
}

function nameOf({ key, columns }: SummedTable, row: SqlRow): string {
  const named = key.filter((column) => column !== 'space');
  const textOf = (column: string): string => {
    if (column === 'request_id') return JSON.stringify(byteaToText(row[column]));
    return columns[column] === 'bytes' ? byteaToHex(row[column]) : JSON.stringify(row[column]);
  };
  return named.map((column) => `${column} ${textOf(column)}`).join(', ');
}

/** Resolves with undefined if the Space is unknown. */
async function findSpace(pool: PostgresPool, row: SqlRow): Promise<Space | undefined> {
  if (row.space === undefined) return undefined;
  const names =
    row.app_id === undefined
      ? (await pool.read('looking at rows', FIND_SPACE, [spaceKeyFromSql(row.space)])).rows
      : [row];
  return spacesFromSql(names)[0]?.space;
}

const FIND_RECORDS = `SELECT generation, canonical_size, url_expires_at, integrity, NULL::bytea AS inline_bytes, pack, pack_offset,
    stored_length, codec, row_sum, place_sum FROM contents WHERE space = $1 AND pack = $2`;

/** undefined: more than its use is damaged, or the records cannot say what it holds. */
async function findPackMend(pool: PostgresPool, row: SqlRow): Promise<StoredValues | undefined> {
  const space = spaceKeyFromSql(row.space);
  const generation = byteaToHex(row.generation);
  const { rows } = await pool.read('recounting a row', FIND_RECORDS, [space, row.generation as string]);
  const records = rows.map((found) => findProvenContent(space, found));
  if (records.includes(undefined)) return undefined;
  const bytes = records.reduce((sum, record) => sum + (record?.packed?.storedLength ?? 0), 0);
  const firstDeadAt = Math.max(0, Math.min(row.first_dead_at as number, Number.MAX_SAFE_INTEGER));
  if (records.length === 0) return undefined;
  const sum = useSum(space, generation, [records.length, bytes, firstDeadAt]);
  return { live_records: BigInt(records.length), live_bytes: BigInt(bytes), use_sum: BigInt(sum) };
}

const LOOKING = 'looking at what Apps store';
const COUNT_UNPROVEN = `SELECT count(*) AS count FROM app_changes WHERE NOT (${IS_CHANGE_PROVEN})`;
const REMOVE_UNPROVEN = `DELETE FROM app_changes WHERE NOT (${IS_CHANGE_PROVEN})`;
const LIST_TOTALS = `SELECT app_id, ${IS_TOTAL_PROVEN} AS proven FROM app_totals ORDER BY app_id`;
const FORGET_ALL = 'DELETE FROM app_totals';
const FORGET = `${FORGET_ALL} WHERE app_id = $1 COLLATE "C"`;

/** Compares the kept totals of each App with those of its Spaces. The repair deletes them, so the next request counts the App again. */
export async function checkAppTotals(
  pool: PostgresPool,
  { signal, onTable, isRepaired }: RowLook,
): Promise<readonly RowDamage[]> {
  const found: RowDamage[] = [];
  const settle = async (table: string, what: string, repair: () => Promise<unknown>): Promise<void> => {
    if (isRepaired) await repair();
    const nobody = { space: undefined, hash: undefined, isProtecting: false };
    found.push(rowDamage(what, { table, ...nobody, fault: CONTRADICTED, repaired: isRepaired }));
  };
  onTable('app_totals');
  // Sums of damaged rows are the matter of those rows.
  await orIfDamaged(
    async () => {
      const [unproven] = (await pool.read(LOOKING, COUNT_UNPROVEN, [])).rows;
      if (unproven?.count !== 0) {
        await settle('app_changes', 'a row of app_changes', async () => {
          await pool.run(LOOKING, REMOVE_UNPROVEN, []);
          await pool.run(LOOKING, FORGET_ALL, []);
        });
      }
      for (const row of (await pool.read(LOOKING, LIST_TOTALS, [])).rows) {
        if (signal.aborted) return;
        const app = row.app_id as string;
        const { kept, counted } = await compareAppTotals(pool, app);
        if (row.proven === true && (kept === undefined || Bun.deepEquals(kept, counted))) continue;
        await settle('app_totals', `the row of app_totals app_id ${JSON.stringify(app)}`, () =>
          pool.run(LOOKING, FORGET, [app]),
        );
      }
    },
    () => undefined,
  );
  return found;
}

const COUNT_DOMAIN = `SELECT (SELECT count(*) FROM root_ref_commits WHERE space = $1 AND domain = $2) AS commit_count,
  (SELECT count(*) FROM balances WHERE space = $1 AND domain = $2) AS balance_count`;

/** undefined: the table has none */
async function findFigureMend(
  pool: PostgresPool,
  row: SqlRow,
  table: SummedTable,
): Promise<StoredValues | undefined> {
  const figures = await findFigures(pool, row, table.name);
  if (figures === undefined) return undefined;
  const sums = Object.entries(table.sumsOf({ ...row, ...figures })).filter(([column]) => column in figures);
  return Object.fromEntries(
    [...Object.entries(figures), ...sums].map(([column, value]) => [column, toStored(value)]),
  );
}

/** A sum in the result is a placeholder: the caller computes exactly these sums again. */
async function findFigures(pool: PostgresPool, row: SqlRow, table: string): Promise<SqlRow | undefined> {
  switch (table) {
    case 'domains': {
      const key = [row.space as string, row.domain as string];
      const [counted] = await countPatiently(pool, COUNT_DOMAIN, key);
      return { ...counted, count_sum: 0 };
    }
    // The counters are compared with a recount of the Space afterwards. No lease that is not counted ends later than now.
    case 'usage_counters':
      return {
        lease_watermark: Math.min(Math.max(0, row.lease_watermark as number), Date.now()),
        row_sum: 0,
      };
    // A tombstone starts again.
    case 'tombstones':
      return { noted_at: Date.now(), seen_at: Date.now(), row_sum: 0 };
    // A mark that says nothing.
    case 'commit_marks':
      return { revision: 0, row_sum: 0 };
    // The Space is listed.
    case 'spaces':
      return { purged: false, purged_sum: null };
    default:
      return undefined;
  }
}

/** A domain may have more rows than a statement of a request can count. */
async function countPatiently(
  pool: PostgresPool,
  sql: string,
  parameters: readonly SqlValue[],
): Promise<readonly SqlRow[]> {
  const begin = `BEGIN READ ONLY; SET LOCAL statement_timeout = ${PATIENCE_MS}`;
  const count = (connection: PostgresConnection) => connection.query(sql, parameters);
  return (await readPatiently(pool, 'counting rows', begin, count)).rows;
}

function toStored(value: unknown): bigint | null {
  if (value === null) return null;
  return typeof value === 'boolean' ? BigInt(value) : BigInt(value as number);
}
