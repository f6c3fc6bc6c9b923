/** Overwrites a page of a real PostgreSQL on its disk. */
import { closeSync, openSync, readSync, writeSync } from 'node:fs';
import type { Hash } from '@holdfast/protocol';
import { SQL } from 'bun';
import type { PostgresServer } from '../../../../../test/support/postgres-server.ts';

const PAGE_BYTES = 8_192;

interface Damage {
  /** of the nodes whose rows were on the page */
  readonly hashes: readonly Hash[];
  mend(): Promise<void>;
}

/** Overwrites a block of a table or an index while the server is down. The table `nodes` has no old versions of rows then. */
export async function damagePage(
  postgres: PostgresServer,
  url: string,
  relation: string,
  block: number,
): Promise<Damage> {
  const { path, hashes } = await prepare(url, relation, block);
  const kept = Buffer.alloc(PAGE_BYTES);
  const onDisk = async (work: (file: number) => void): Promise<void> => {
    await postgres.kill();
    const file = openSync(path, 'r+');
    work(file);
    closeSync(file);
    await postgres.restart();
  };
  const half = PAGE_BYTES / 2;
  await onDisk((file) => {
    readSync(file, kept, 0, PAGE_BYTES, block * PAGE_BYTES);
    writeSync(file, Buffer.alloc(half, 0xa5), 0, half, block * PAGE_BYTES + half);
  });
  const mend = (): Promise<void> =>
    onDisk((file) => void writeSync(file, kept, 0, PAGE_BYTES, block * PAGE_BYTES));
  return { hashes, mend };
}

async function prepare(url: string, relation: string, block: number) {
  await using sql = new SQL(url, { max: 1 });
  await sql.unsafe('VACUUM FULL nodes');
  const [found] = await sql.unsafe(
    `SELECT current_setting('data_directory') || '/' || pg_relation_filepath('${relation}') AS path`,
  );
  const rows: { hash: Hash }[] = await sql.unsafe(
    `SELECT encode(hash, 'hex') AS hash FROM nodes WHERE ctid >= '(${block},0)' AND ctid < '(${block + 1},0)'`,
  );
  // Recovery after the crash begins here, and no page that it writes again may be the damaged one.
  await sql.unsafe('CHECKPOINT');
  return { path: found.path as string, hashes: rows.map(({ hash }) => hash).toSorted() };
}
