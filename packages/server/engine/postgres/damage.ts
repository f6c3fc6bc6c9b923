/** Locates damage that PostgreSQL reports, and says what to do. PostgreSQL names a file, but operators know tables and indexes. */
import { RowDamaged as DamagedRow, isDamage, StoreUnavailable } from '../../core/store-failure.ts';
import type { PostgresConnection } from './wire/connection.ts';

/** A row whose values contradict its sum. It is the matter of that row alone: the others are served. */
export class RowDamaged extends DamagedRow {
  /** `what`: names the row */
  constructor(table: string, what: string) {
    super(
      `PostgreSQL: the row of ${what} in the table ${table} contradicts its sum: run holdfast check --repair`,
    );
  }
}

export const damagedDomain = (domain: string): RowDamaged =>
  new RowDamaged('domains', `the domain ${JSON.stringify(domain)}`);

/** As in `block 5 of relation "base/16384/16390"` and `block 5 in file "base/16384/16390.1"`. */
const BLOCK_AND_FILE = /block (\d+) (?:of|in) (?:relation|file) "?([^\s"]+)"?/;
const FILE = /^(?:base|pg_tblspc\/(\d+)\/[^/]+)\/\d+\/(\d+)/;
const NAMED_INDEX = /index "([^"]+)"(?:.* block (\d+))?/;

/** $1 the table space, 0: the database's own; $2 the number of the file. A TOAST table counts as its table. */
const FIND_RELATION = `SELECT coalesce(owner.relname, found.relname)::text AS name, found.relkind = 'i' AS is_index
  FROM pg_class AS found LEFT JOIN pg_class AS owner ON owner.reltoastrelid = found.oid AND found.relkind = 't'
  WHERE found.oid = pg_filenode_relation($1::bigint::oid, $2::bigint::oid)`;

/** Damage whose place is known, as far as PostgreSQL tells. */
export class LocatedDamage extends StoreUnavailable {
  constructor(message: string, isIndex: boolean, cause: unknown) {
    super(message, { cause, isDamage: true, isIndex });
  }
}

/** `error` itself if it is not damage. `connection` is in no failed transaction. */
export async function locateDamage(connection: PostgresConnection, error: unknown): Promise<unknown> {
  if (!isDamage(error) || error instanceof LocatedDamage) return error;
  const told = ((error as StoreUnavailable).cause as Error | undefined)?.message ?? '';
  const [, index, indexBlock] = NAMED_INDEX.exec(told) ?? [];
  if (index !== undefined) return damagedIndex(index, indexBlock, error);
  const [, block, file = ''] = BLOCK_AND_FILE.exec(told) ?? [];
  const [, space = '0', number] = FILE.exec(file) ?? [];
  if (number === undefined) return error;
  const { rows } = await connection.query(FIND_RELATION, [Number(space), Number(number)]);
  const [relation] = rows;
  if (relation === undefined) return error;
  if (relation.is_index === true) return damagedIndex(relation.name as string, block, error);
  const message = `PostgreSQL: block ${block} of the table ${relation.name} is damaged: check the disk, and restore a backup`;
  return new LocatedDamage(message, false, error);
}

function damagedIndex(name: string, block: string | undefined, cause: unknown): LocatedDamage {
  const where = block === undefined ? '' : `block ${block} of `;
  const message = `PostgreSQL: ${where}the index ${name} is damaged, its table is not: run REINDEX INDEX ${name}, and check the disk`;
  return new LocatedDamage(message, true, cause);
}
