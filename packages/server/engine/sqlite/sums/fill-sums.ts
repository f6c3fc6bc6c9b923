/** Gives the rows of an older database their sums. Part of a migration. */
import type { Database, SQLQueryBindings } from 'bun:sqlite';
import { bytesToHash, decodeNode as decodeCanonical, NODE_FIXED_HEADER_BYTES } from '@holdfast/protocol';
import { sha256 } from '../../../core/signer.ts';
import { isDamageMet } from '../../local-failure.ts';
import { storeSum } from '../ledger-rows.ts';
import { decodeNode } from '../rows.ts';
import type { SqlRow } from '../statements.ts';
import { findWrongBit, hasSum, pagesOfTable, type StoredRow, toSqlRow } from './damaged-rows.ts';
import { STORE, SUMMED_TABLES, type SummedTable } from './tables.ts';

/** A row that contradicts another one, or itself, may be wrong: it gets no sum, and so counts as damaged. */
const FITS: Readonly<Record<string, string>> = {
  domains: 'EXISTS (SELECT 1 FROM spaces WHERE id = domains.space)',
  balances: `EXISTS (SELECT 1 FROM domains JOIN nodes ON nodes.space = domains.space AND nodes.hash = balances.hash
    WHERE domains.id = balances.domain)`,
  nodes: `canonical_size = ${NODE_FIXED_HEADER_BYTES} + length(CAST(content_type AS BLOB)) + length(refs) + size
    AND EXISTS (SELECT 1 FROM spaces WHERE id = nodes.space)
    AND NOT EXISTS (SELECT 1 FROM contents WHERE generation = nodes.generation AND canonical_size <> nodes.canonical_size)`,
};

/** Values that follow from other rows are counted again. */
const RECOUNTS: readonly string[] = [
  `UPDATE packs SET (live_records, live_bytes) =
    (SELECT count(*), coalesce(sum(stored_length), 0) FROM contents WHERE pack = packs.generation)`,
  'UPDATE domains SET commit_count = (SELECT count(*) FROM root_ref_commits WHERE domain = domains.id)',
];

/** A wrong bit that nothing contradicts cannot be told from a right one. */
export function fillSums(database: Database): void {
  for (const sql of RECOUNTS) database.run(sql);
  for (const table of SUMMED_TABLES) if (!table.isOptional) fillTable(database, table);
}

function fillTable(database: Database, table: SummedTable): void {
  const { name, key, sumColumn, sumOf, derived } = table;
  const where = key.map((column, index) => `${column} = ?${index + 2}`).join(' AND ');
  using setSum = database.prepare<unknown, SQLQueryBindings[]>(
    `UPDATE ${name} SET ${sumColumn} = ?1 WHERE ${where} AND ${FITS[name] ?? 'TRUE'}`,
  );
  using findBytes = database.prepare<{ bytes: Uint8Array | null }, SQLQueryBindings[]>(
    'SELECT inline_bytes AS bytes FROM contents WHERE generation = ?1',
  );
  for (const page of pagesOfTable(database, table)) {
    for (const row of page) {
      const plain = toSqlRow(row);
      const keys = key.map((column) => row[column] as SQLQueryBindings);
      const bytes = name === 'nodes' ? findBytes.get(row.generation as Uint8Array)?.bytes : null;
      // A row that has a value which no row has stays as it is: it was damaged before.
      const sum = bytes && !isNodeOf(plain, bytes) ? undefined : sumOf(plain);
      if (Number.isSafeInteger(sum)) setSum.run(sum as number, ...keys);
      fillDerived(database, table, row, derived?.(plain) ?? {});
    }
  }
}

function isNodeOf(row: SqlRow, bytes: Uint8Array): boolean {
  const node = decodeNode({ ...row, stored_size: row.stored_size ?? row.canonical_size });
  if (node === undefined || bytesToHash(sha256(bytes)) !== node.hash) return false;
  const { contentType, refs, content } = decodeCanonical(bytes);
  return (
    node.contentType === contentType && Buffer.compare(node.refs, refs) === 0 && node.size === content.length
  );
}

/** At each start: one wrong bit of a value of the store must not keep a server from starting, and is put right. */
export function proveStore(database: Database): void {
  try {
    proveValues(database);
  } catch (error) {
    // A request that needs a value on that page reports the damage.
    if (!isDamageMet(error)) throw error;
  }
}

function proveValues(database: Database): void {
  // A name that is no text any more cannot be given back as it was read.
  using update = database.prepare<unknown, SQLQueryBindings[]>(
    'UPDATE OR IGNORE store SET name = ?1, value = ?2, row_sum = ?3 WHERE name = ?4 OR (row_sum = ?5 AND value = ?6)',
  );
  for (const page of pagesOfTable(database, STORE)) {
    for (const row of page) {
      const isNew = row.row_sum === null;
      const bit = isNew || hasSum(STORE, row) ? undefined : findWrongBit(STORE, row);
      if (!isNew && bit === undefined) continue;
      const { name, value } = { ...row, ...(bit && { [bit.column]: bit.value }) } as Record<string, string>;
      const [right, found] = [
        [name, value, storeSum(name as string, value as string)],
        [row.name, row.row_sum, row.value],
      ];
      update.run(...([...right, ...found] as SQLQueryBindings[]));
    }
  }
}

/** Columns that follow from the others. */
function fillDerived(
  database: Database,
  { name, key }: SummedTable,
  row: StoredRow,
  values: Readonly<Record<string, number>>,
): void {
  const where = key.map((column, index) => `${column} = ?${index + 2}`).join(' AND ');
  const keys = key.map((column) => row[column] as SQLQueryBindings);
  for (const [column, value] of Object.entries(values)) {
    database
      .query<unknown, SQLQueryBindings[]>(`UPDATE ${name} SET ${column} = ?1 WHERE ${where}`)
      .run(value, ...keys);
  }
}
