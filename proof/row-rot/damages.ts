/** One wrong bit of one value of one row, or a value that is wrong as a whole, made by SQL: the page stays consistent. */
import { Database, type SQLQueryBindings } from 'bun:sqlite';

type Value = string | bigint | Uint8Array | null;

export interface Damage {
  readonly table: string;
  readonly column: string;
  /** the row's place in the table */
  readonly row: number;
  readonly change: Change;
}

type Change = { readonly bit: number } | { readonly value: WrongValue };
/** `other`: what another row has there */
type WrongValue = 'null' | 'zero' | 'one' | 'negative' | 'many' | 'max' | 'other' | 'empty';
const WRONG_NUMBERS: readonly WrongValue[] = ['null', 'zero', 'one', 'negative', 'many', 'max', 'other'];
const WRONG_BYTES: readonly WrongValue[] = ['null', 'zero', 'other', 'empty'];

const INTEGER_BITS = 64;
const BITS_PER_BYTE = 8;
/** The schema's own table is the matter of migrations. */
const LEFT_OUT: ReadonlySet<string> = new Set(['holdfast_schema', 'store', 'sqlite_sequence']);
/** Numbers that only order the rows: nothing refers to them. */
const MEANINGLESS: ReadonlySet<string> = new Set(['contents.id', 'pack_verdicts.id']);

interface Column {
  readonly table: string;
  readonly column: string;
  readonly rows: number;
}

function columnsOf(database: Database): Column[] {
  const tables = database
    .query<{ name: string }, []>("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    .all()
    .filter(({ name }) => !LEFT_OUT.has(name));
  return tables.flatMap(({ name: table }) => {
    const rows = Number(database.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n);
    const columns = database.query<{ name: string }, []>(`PRAGMA table_info(${table})`).all();
    const named = columns.filter(({ name }) => !MEANINGLESS.has(`${table}.${name}`));
    return rows === 0 ? [] : named.map(({ name: column }) => ({ table, column, rows }));
  });
}

/** Round after round each column of each table, in another row: another bit, then another wrong value. `draw`: an integer below its argument. */
export function* damagesOf(databasePath: string, draw: (below: number) => number): Generator<Damage> {
  const database = new Database(databasePath, { readonly: true, safeIntegers: true });
  try {
    const columns = columnsOf(database);
    for (let round = 0; ; round += 1) {
      for (const { table, column, rows } of columns) {
        const row = draw(rows);
        const value = readValue(database, { table, column, row });
        const change = round % 2 === 0 ? drawBit(value, draw) : drawValue(value, draw);
        if (change !== undefined) yield { table, column, row, change };
      }
    }
  } finally {
    database.close();
  }
}

function drawBit(value: Value, draw: (below: number) => number): Change | undefined {
  const bits = bitsOf(value);
  return bits === 0 ? undefined : { bit: draw(bits) };
}

function drawValue(value: Value, draw: (below: number) => number): Change {
  const values = typeof value === 'bigint' || value === null ? WRONG_NUMBERS : WRONG_BYTES;
  return { value: values[draw(values.length)] as WrongValue };
}

function wrongValue(database: Database, damage: Damage, wrong: WrongValue, kept: Value): Value {
  const isNumber = typeof kept === 'bigint' || kept === null;
  switch (wrong) {
    case 'null':
      return null;
    case 'zero':
      return isNumber ? 0n : new Uint8Array(Buffer.from(kept as Uint8Array).length);
    case 'one':
      return 1n;
    case 'negative':
      return -1n;
    case 'many':
      return 1n << 40n;
    case 'max':
      return (1n << 63n) - 1n;
    case 'empty':
      return new Uint8Array(0);
    case 'other':
      return readValue(database, { ...damage, row: damage.row === 0 ? 1 : 0 });
  }
}

function readValue(
  database: Database,
  { table, column, row }: Pick<Damage, 'table' | 'column' | 'row'>,
): Value {
  const found = database.query<{ value: Value }, SQLQueryBindings[]>(
    `SELECT ${column} AS value FROM ${table} ORDER BY ${keyOf(database, table)} LIMIT 1 OFFSET ?1`,
  );
  return found.get(row)?.value ?? null;
}

function keyOf(database: Database, table: string): string {
  const columns = database
    .query<{ name: string; pk: bigint | number }, []>(`PRAGMA table_info(${table})`)
    .all();
  const key = columns
    .filter(({ pk }) => Number(pk) > 0)
    .sort((left, right) => Number(left.pk) - Number(right.pk));
  return key.map(({ name }) => name).join(', ');
}

function bitsOf(value: Value): number {
  if (value === null) return 0;
  if (typeof value === 'bigint' || typeof value === 'number') return INTEGER_BITS;
  return Buffer.from(value as Uint8Array).length * BITS_PER_BYTE;
}

function flip(value: Value, bit: number): Value {
  if (value === null) return null;
  if (typeof value === 'bigint') return BigInt.asIntN(INTEGER_BITS, value ^ (1n << BigInt(bit)));
  const bytes = Buffer.from(value as Uint8Array);
  const at = Math.floor(bit / BITS_PER_BYTE);
  bytes[at] = (bytes[at] as number) ^ (1 << (bit % BITS_PER_BYTE));
  return new Uint8Array(bytes);
}

const isSame = (left: Value, right: Value): boolean =>
  left === right ||
  (left !== null &&
    right !== null &&
    typeof left !== 'bigint' &&
    typeof right !== 'bigint' &&
    Buffer.compare(Buffer.from(left as Uint8Array), Buffer.from(right as Uint8Array)) === 0);

/** False: the schema does not take that value, or the row has it. */
export function makeDamage(databasePath: string, damage: Damage): boolean {
  const { table, column, row, change } = damage;
  const database = new Database(databasePath, { readwrite: true, create: false, safeIntegers: true });
  try {
    database.run('PRAGMA ignore_check_constraints = ON');
    const key = keyOf(database, table);
    const names = key.split(', ');
    const keys = database
      .query<Record<string, Value>, SQLQueryBindings[]>(
        `SELECT ${key} FROM ${table} ORDER BY ${key} LIMIT 1 OFFSET ?1`,
      )
      .get(row);
    if (keys === null) return false;
    const kept = readValue(database, damage);
    const value = 'bit' in change ? flip(kept, change.bit) : wrongValue(database, damage, change.value, kept);
    if (isSame(kept, value)) return false;
    const written = typeof kept === 'string' ? 'CAST(?1 AS TEXT)' : '?1';
    const where = names.map((name, index) => `${name} = ?${index + 2}`).join(' AND ');
    const values = names.map((name) => keys[name] as SQLQueryBindings);
    database
      .query<unknown, SQLQueryBindings[]>(`UPDATE ${table} SET ${column} = ${written} WHERE ${where}`)
      .run(value as SQLQueryBindings, ...values);
    return true;
  } catch (error) {
    if (/^SQLITE_(CONSTRAINT|MISMATCH)/.test(String((error as { code?: unknown }).code))) return false;
    throw error;
  } finally {
    database.close();
  }
}

/** What `nameOf` says, and what stands behind it. */
export function parseDamage(text: string): { readonly damage: Damage; readonly rest: string } | undefined {
  const [, table, column, row, bit, value, rest = ''] =
    /^(\w+)\.(\w+), row (\d+), (?:bit (\d+)|(\w+))(?:, (.+))?$/.exec(text) ?? [];
  if (table === undefined || column === undefined) return undefined;
  const change = bit === undefined ? { value: value as WrongValue } : { bit: Number(bit) };
  return { damage: { table, column, row: Number(row), change }, rest };
}

export const nameOf = ({ table, column, row, change }: Damage): string =>
  `${table}.${column}, row ${row}, ${'bit' in change ? `bit ${change.bit}` : change.value}`;
