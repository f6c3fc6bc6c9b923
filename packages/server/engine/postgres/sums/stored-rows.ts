/** Rows with all bits of their values, as a look at the sums needs them. */
import type { StoredValue } from '../../../core/rows/find-bit.ts';
import { ROWS_PER_STATEMENT } from '../../rows/work.ts';
import type { PostgresPool } from '../wire/connection-pool.ts';
import { byteaToBytes, bytesToBytea, type SqlRow, type SqlValue } from '../wire/wire-messages.ts';
import type { ColumnKind, SummedTable } from './tables.ts';

export type StoredValues = Readonly<Record<string, StoredValue>>;

export interface StoredRow {
  readonly values: StoredValues;
  /** names this version of the row: it is another one once the row was written */
  readonly version: readonly [part: string, place: string, writer: string];
}

const LOOKING = 'looking at rows';

const ARRAY_TYPES: Readonly<Record<ColumnKind, string>> = {
  uuid: 'uuid',
  bytes: 'bytea',
  integer: 'bigint',
  boolean: 'boolean',
  text: 'text',
};

function selectOf({ name, key, columns }: SummedTable) {
  const selection = Object.entries(columns).map(([column, kind]) =>
    kind === 'integer' || kind === 'uuid' ? `${column}::text AS ${column}` : column,
  );
  const version = 'tableoid::text AS "#part", ctid::text AS "#place", xmin::text AS "#writer"';
  const names = key.map((column) => `${name}.${column}`).join(', ');
  const placesFrom = (first: number): string =>
    key.map((column, at) => `$${at + first}::${ARRAY_TYPES[columns[column] as ColumnKind]}`).join(', ');
  return { select: `SELECT ${version}, ${selection.join(', ')} FROM ${name}`, names, placesFrom };
}

const storedRow = ({ columns }: SummedTable, row: SqlRow): StoredRow => ({
  values: Object.fromEntries(
    Object.entries(columns).map(([column, kind]) => [column, storedOf(row[column], kind)]),
  ),
  version: [row['#part'] as string, row['#place'] as string, row['#writer'] as string],
});

const keyOf = ({ key }: SummedTable, row: SqlRow | undefined): SqlValue[] | undefined =>
  row && key.map((column) => row[column] as SqlValue);

interface Lacking {
  readonly after: readonly SqlValue[] | undefined;
  /** what is true of a row that lacks a sum */
  readonly condition: string;
  readonly rows: number;
}

/** Some of the next rows that lack a sum, and the key up to which they were looked for; undefined: the table ends. */
export async function readLacking(
  pool: PostgresPool,
  table: SummedTable,
  { after = [], condition, rows }: Lacking,
): Promise<{ readonly lacking: readonly StoredRow[]; readonly next: readonly SqlValue[] | undefined }> {
  const { select, names, placesFrom } = selectOf(table);
  const from = after.length === 0 ? 'true' : `(${names}) > (${placesFrom(1)})`;
  const ends = `SELECT ${table.key.join(', ')} FROM ${table.name} WHERE ${from} ORDER BY ${names} OFFSET ${rows - 1} LIMIT 1`;
  const end = keyOf(table, (await pool.read(LOOKING, ends, after)).rows[0]);
  const until = end === undefined ? '' : `AND (${names}) <= (${placesFrom(after.length + 1)})`;
  const lacks = `${select} WHERE ${from} ${until} AND (${condition}) ORDER BY ${names} LIMIT ${ROWS_PER_STATEMENT}`;
  const found = (await pool.read(LOOKING, lacks, [...after, ...(end ?? [])])).rows;
  const lacking = found.map((row) => storedRow(table, row));
  return { lacking, next: found.length === ROWS_PER_STATEMENT ? keyOf(table, found.at(-1)) : end };
}

export async function* pagesOfTable(pool: PostgresPool, table: SummedTable): AsyncGenerator<StoredRow[]> {
  const { select, names, placesFrom } = selectOf(table);
  const order = `ORDER BY ${names} LIMIT ${ROWS_PER_STATEMENT}`;
  let sql = `${select} ${order}`;
  let after: SqlValue[] = [];
  for (;;) {
    const { rows } = await pool.read(LOOKING, sql, after);
    yield rows.map((row) => storedRow(table, row));
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_PER_STATEMENT) return;
    after = keyOf(table, last) as SqlValue[];
    sql = `${select} WHERE (${names}) > (${placesFrom(1)}) ${order}`;
  }
}

function storedOf(value: unknown, kind: ColumnKind): StoredValue {
  if (value === null) return null;
  if (kind === 'integer') return BigInt(value as string);
  if (kind === 'boolean') return value === true ? 1n : 0n;
  if (kind === 'uuid') return Uint8Array.fromHex((value as string).replaceAll('-', ''));
  return kind === 'bytes' ? byteaToBytes(value) : (value as string);
}

/** As statements that run for requests give it; undefined: no row has such values. */
export function toSqlRow({ columns }: SummedTable, values: StoredValues): SqlRow | undefined {
  const row: Record<string, unknown> = {};
  for (const [column, kind] of Object.entries(columns)) {
    const value = values[column] ?? null;
    if (kind === 'boolean' && typeof value === 'bigint' && value !== 0n && value !== 1n) return undefined;
    row[column] = plainOf(value, kind);
  }
  return row;
}

function plainOf(value: StoredValue, kind: ColumnKind): unknown {
  if (kind === 'boolean' && value !== null) return value === 1n;
  if (typeof value === 'bigint') return Number(value);
  if (!(value instanceof Uint8Array)) return value;
  return kind === 'uuid' ? value.toHex() : bytesToBytea(value);
}

/** The row with the key that these values have. */
export async function findStored(
  pool: PostgresPool,
  table: SummedTable,
  values: StoredValues,
): Promise<StoredRow | undefined> {
  const { select, names, placesFrom } = selectOf(table);
  const key = keyOf(table, toSqlRow(table, values)) as SqlValue[];
  const [row] = (await pool.read(LOOKING, `${select} WHERE (${names}) = (${placesFrom(1)})`, key)).rows;
  return row && storedRow(table, row);
}

/** Removes the row if both rows are as they were read. Resolves whether it did. */
export async function removeRow(
  pool: PostgresPool,
  { name }: SummedTable,
  row: StoredRow,
  stands: StoredRow,
): Promise<boolean> {
  const isAsRead = (at: number): string =>
    `tableoid = $${at}::text::oid AND ctid = $${at + 1}::text::tid AND xmin = $${at + 2}::text::xid`;
  const sql = `DELETE FROM ${name} WHERE ${isAsRead(1)} AND EXISTS (SELECT FROM ${name} WHERE ${isAsRead(4)})`;
  return (await pool.run('removing a row', sql, [...row.version, ...stands.version])).count === 1;
}

/** Another row has its key; a rule of the schema; the sum of its values has no room. */
const UNMENDABLE: ReadonlySet<unknown> = new Set(['23505', '23514', '22003']);

/** Writes these columns, if the row is as it was read. Resolves whether it did: one row that cannot be written holds up no other. */
export async function mendRow(
  pool: PostgresPool,
  { name, columns }: SummedTable,
  { version }: StoredRow,
  mended: StoredValues,
): Promise<boolean> {
  const entries = Object.entries(mended);
  const set = entries.map(
    ([column], index) => `${column} = $${index + 4}::text::${typeOf(columns[column] as ColumnKind)}`,
  );
  const values = entries.map(([column, value]) => textOf(value, columns[column] as ColumnKind));
  const sql = `UPDATE ${name} SET ${set.join(', ')} WHERE tableoid = $1::text::oid AND ctid = $2::text::tid AND xmin = $3::text::xid`;
  try {
    return (await pool.run('mending a row', sql, [...version, ...values])).count === 1;
  } catch (error) {
    const code = (error as { cause?: { code?: unknown } }).cause?.code;
    if (UNMENDABLE.has(code)) return false;
    throw error;
  }
}

const typeOf = (kind: ColumnKind): string => ARRAY_TYPES[kind];

function textOf(value: StoredValue, kind: ColumnKind): string | null {
  if (value === null) return null;
  if (kind === 'boolean') return value === 1n ? 't' : 'f';
  if (typeof value === 'bigint') return String(value);
  if (!(value instanceof Uint8Array)) return value;
  return kind === 'uuid' ? value.toHex() : bytesToBytea(value);
}
