/** A database of PostgreSQL with one wrong value of a row, made by SQL. Its bytes are objects that clients write themselves. */

import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SQL } from 'bun';
import { DirectStore } from '../../packages/server/core/test/direct-store.ts';
import type { CopiedDeployment } from '../../packages/server/deployment/deployment.ts';
import { openDeployment } from '../../packages/server/deployment/open.ts';
import { PostgresDeploymentRows } from '../../packages/server/engine/postgres/deployment-rows.ts';
import { PostgresMetadataStore } from '../../packages/server/engine/postgres/metadata-store.ts';
import { openPostgresRegistryStore } from '../../packages/server/engine/postgres/registry-store.ts';
import { readSigningSecrets } from '../../packages/server/engine/postgres/secrets.ts';
import { copyAll, isRefusal } from './journeys.ts';
import { DECIDING, PORT_CALLS } from './meanwhile.ts';
import { openPatiently } from './open-patiently.ts';
import type { DamagedCopy, Draw, Subject, Wrong } from './subject.ts';
import { tell } from './tell.ts';
import { coreOf, MINUTE_MS, type OpenWorld, openFolder, type World } from './world.ts';

const CONNECTIONS_MAX = 4;
const URL_LIFE_MS = 5 * MINUTE_MS;
/** The schema's own table is the matter of migrations. */
const LEFT_OUT: readonly string[] = ['holdfast_schema', 'store'];
const BITS: Readonly<Record<string, number>> = { smallint: 16, integer: 32, bigint: 64 };
const WRONG_NUMBERS: readonly string[] = ['NULL', '0', '1', '-1', '1099511627776', '9223372036854775807'];
/** The schema does not take the value. */
const REFUSED = /^(22|23)/;

interface Column {
  readonly table: string;
  readonly column: string;
  readonly type: string;
  readonly rows: number;
}

/** `url`: an empty database. With `migratedTo`, an empty folder, each damaged database is migrated there before it is judged. */
export function postgresSubject(url: string, migratedTo?: string): Subject {
  const clock = { now: 0 };
  const content = new DirectStore(() => clock.now, URL_LIFE_MS);
  const through = async (copy: DatabaseCopy): Promise<DamagedCopy> =>
    migratedTo === undefined ? copy : migrateToFolder(copy, migratedTo);
  return { open: openRows(url, content, clock), damages: (draw) => damagesOf(url, content, draw, through) };
}

/** The same while everything that reads, moves or deletes is at work. */
export function postgresMeanwhileSubject(url: string): Subject {
  const clock = { now: 0 };
  const content = new DirectStore(() => clock.now, URL_LIFE_MS);
  return { open: openRows(url, content, clock), damages: (draw) => damagesMeanwhile(url, content, draw) };
}

/** A database that is filled, and copies of it or of another one, all with the same objects. `url`: an empty database. */
export function postgresOrigin(url: string) {
  const clock = { now: 0 };
  const content = new DirectStore(() => clock.now, URL_LIFE_MS);
  const copy = (from: string): Promise<DatabaseCopy> => copyOf(from, content);
  return { open: openRows(url, content, clock), copy };
}

interface DatabaseCopy extends DamagedCopy {
  readonly url: string;
  readonly content: DirectStore;
}

type Through = (copy: DatabaseCopy) => Promise<DamagedCopy>;

async function migrateToFolder(copy: DatabaseCopy, parent: string): Promise<DamagedCopy> {
  const dataDir = mkdtempSync(join(parent, 'migrated-'));
  const remove = async (): Promise<void> => {
    rmSync(dataDir, { recursive: true });
    await copy.remove();
  };
  try {
    await using opened = new AsyncDisposableStack();
    const source = opened.adopt(await openSource(copy), (each) => each.close());
    const place = { kind: 'folder', dataDir } as const;
    const made = await openDeployment({ rows: place, bytes: place }, { kind: 'copy' });
    await copyAll(
      source,
      opened.adopt(made, (each) => each.close()),
    );
    return { open: openFolder(dataDir), former: copy.open, remove };
  } catch (error) {
    if (isRefusal(error)) return { open: copy.open, former: copy.open, refusal: error.message, remove };
    await remove();
    throw error;
  }
}

export async function openSource({
  url,
  content,
}: Pick<DatabaseCopy, 'url' | 'content'>): Promise<CopiedDeployment> {
  const pool = await openPatiently(url, CONNECTIONS_MAX);
  const onFatal = (error: Error): never => {
    throw error;
  };
  const metadata = await PostgresMetadataStore.open({ pool, onFatal, clock: undefined });
  const secret = { read: () => readSigningSecrets(pool) };
  return {
    rows: new PostgresDeploymentRows({ pool, metadata }),
    apps: openPostgresRegistryStore(pool),
    bytes: content,
    assertAlone: async () => undefined,
    close: async () => {
      await metadata.close();
      await pool.close();
    },
    // Of a source nothing else is asked.
    ...({ secret } as unknown as Pick<CopiedDeployment, 'secret' | 'intake'>),
  };
}

const openRows =
  (url: string, content: DirectStore, clock: { now: number }): OpenWorld =>
  async (now, seed) => {
    clock.now = now;
    const fatal: Error[] = [];
    const pool = await openPatiently(url, CONNECTIONS_MAX);
    const onFatal = (error: Error): number => fatal.push(error);
    const rows = await PostgresMetadataStore.open({ pool, onFatal, clock: { now: () => clock.now } });
    const close = async (): Promise<void> => {
      await rows.close();
      await pool.close();
    };
    return { core: coreOf(rows, content, seed), clock, fatal, close };
  };

interface ColumnDamage {
  readonly column: Column;
  readonly row: number;
  /** SQL */
  readonly value: string;
}

const nameOf = ({ column: { table, column }, row, value }: ColumnDamage): string =>
  `${table}.${column}, row ${row}, ${value}`;

function* drawDamages(columns: readonly Column[], draw: Draw): Generator<ColumnDamage> {
  for (let round = 0; ; round += 1) {
    for (const column of shuffled(columns, draw)) {
      const row = draw(column.rows);
      yield { column, row, value: round % 2 === 0 ? flipped(column, draw) : wrongValue(column, row, draw) };
    }
  }
}

async function* damagesOf(
  url: string,
  content: DirectStore,
  draw: Draw,
  through: Through,
): AsyncGenerator<Wrong> {
  for (const damage of drawDamages(await columnsOf(url), draw)) {
    const make = async (): Promise<DamagedCopy | undefined> => {
      const copy = await copyOf(url, content);
      if (await spoil(copy.url, damage)) return through(copy);
      await copy.remove();
      return undefined;
    };
    yield { name: nameOf(damage), make };
  }
}

async function* damagesMeanwhile(url: string, content: DirectStore, draw: Draw): AsyncGenerator<Wrong> {
  const columns = (await columnsOf(url)).filter(({ table, column }) => DECIDING.has(`${table}.${column}`));
  for (const damage of drawDamages(columns, draw)) {
    const before = draw(PORT_CALLS);
    const make = async (): Promise<DamagedCopy> => {
      const copy = await copyOf(url, content);
      let left = Number.POSITIVE_INFINITY;
      const onCall = (): Promise<void> | undefined => {
        left -= 1;
        if (left >= 0) return undefined;
        left = Number.POSITIVE_INFINITY;
        return spoil(copy.url, damage).then((isMade) => {
          if (!isMade) left = 0;
        });
      };
      const open = async (now: number, seed: number): Promise<World> => {
        const world = await copy.open(now, seed);
        return { ...world, core: { ...world.core, metadata: tell(world.core.metadata, onCall) } };
      };
      const begin = (): void => {
        left = before;
      };
      return { ...copy, open, begin };
    };
    yield { name: `${nameOf(damage)}, before call ${before}`, make };
  }
}

/** A run that is short meets columns of all tables. */
function shuffled(columns: readonly Column[], draw: Draw): Column[] {
  const left = [...columns];
  return columns.map(() => left.splice(draw(left.length), 1)[0] as Column);
}

async function columnsOf(url: string): Promise<Column[]> {
  await using sql = new SQL(url, { max: 1 });
  const found: { table: string; column: string; type: string }[] = await sql.unsafe(
    `SELECT table_name AS table, column_name AS column, data_type AS type FROM information_schema.columns
     WHERE table_schema = 'public' AND is_generated = 'NEVER' ORDER BY table_name, ordinal_position`,
  );
  const columns: Column[] = [];
  for (const each of found) {
    if (LEFT_OUT.includes(each.table)) continue;
    const [{ rows }] = await sql.unsafe(`SELECT count(*)::integer AS rows FROM ${each.table}`);
    if (rows > 0) columns.push({ ...each, rows });
  }
  return columns;
}

/** SQL for the value with one other bit. */
function flipped({ column, type }: Column, draw: Draw): string {
  const bits = BITS[type];
  if (bits !== undefined) return `${column} # (1::bigint << ${draw(bits)})::${type}`;
  const bit = draw(2 ** 16);
  const withBit = (bytes: string): string =>
    `set_bit(${bytes}, ${bit} % (8 * length(${bytes})), 1 - get_bit(${bytes}, ${bit} % (8 * length(${bytes}))))`;
  if (type === 'boolean') return `NOT ${column}`;
  if (type === 'bytea') return withBit(column);
  if (type === 'uuid')
    return `encode(${withBit(`decode(replace(${column}::text, '-', ''), 'hex')`)}, 'hex')::uuid`;
  return `convert_from(${withBit(`convert_to(${column}, 'UTF8')`)}, 'UTF8')`;
}

function wrongValue({ table, column, type }: Column, row: number, draw: Draw): string {
  const other = `(SELECT ${column} FROM ${table} ORDER BY ctid LIMIT 1 OFFSET ${row === 0 ? 1 : 0})`;
  const zeros = `decode(repeat('00', length(${column})), 'hex')`;
  const values =
    type in BITS
      ? WRONG_NUMBERS
      : type === 'bytea'
        ? ['NULL', zeros, "''"]
        : type === 'text'
          ? ['NULL', "''"]
          : [];
  const all = [...values, type === 'boolean' ? `NOT ${column}` : other];
  return all[draw(all.length)] as string;
}

let copies = 0;

async function copyOf(url: string, content: DirectStore): Promise<DatabaseCopy> {
  copies += 1;
  const origin = new URL(url).pathname.slice(1);
  const name = `${origin}_copy${copies}`;
  const administer = async (statement: string): Promise<void> => {
    await using admin = new SQL(new URL('/postgres', url).href, { max: 1 });
    await admin.unsafe(statement);
  };
  await administer(`CREATE DATABASE ${name} TEMPLATE ${origin} STRATEGY file_copy`);
  const copy = new URL(`/${name}`, url).href;
  const clock = { now: 0 };
  const objects = content.copy(() => clock.now);
  return {
    ...{ open: openRows(copy, objects, clock), url: copy, content: objects },
    remove: () => administer(`DROP DATABASE ${name} WITH (FORCE)`),
  };
}

/** False: the schema does not take that value, or the row has it. */
async function spoil(url: string, { column: { table, column }, row, value }: ColumnDamage): Promise<boolean> {
  await using sql = new SQL(url, { max: 1 });
  const place = `(SELECT ctid FROM ${table} ORDER BY ctid LIMIT 1 OFFSET ${row})`;
  try {
    const { count } = await sql.unsafe(
      `UPDATE ${table} SET ${column} = ${value} WHERE ctid = ${place} AND ${column} IS DISTINCT FROM ${value}`,
    );
    return count === 1;
  } catch (error) {
    if (REFUSED.test(String((error as { errno?: unknown }).errno))) return false;
    throw error;
  }
}
