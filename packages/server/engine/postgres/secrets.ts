/** Small values that all processes of a database share. A value is made once: the first process to insert wins. */
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToBytes, bytesToBytea } from './wire/sql-values.ts';

const SQL = {
  find: 'SELECT value FROM secrets WHERE name = $1',
  insert: 'INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING',
  replace:
    'INSERT INTO secrets (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
} as const;

/** @throws StoreUnavailable */
export async function findSecret(pool: PostgresPool, name: string): Promise<Uint8Array | undefined> {
  const { rows } = await pool.read('reading a shared value', SQL.find, [name]);
  return rows[0] === undefined ? undefined : byteaToBytes(rows[0].value);
}

/** Durable before it is used. @throws StoreUnavailable */
export async function findOrCreateSecret(
  pool: PostgresPool,
  name: string,
  make: () => Uint8Array,
): Promise<Uint8Array> {
  const found = await findSecret(pool, name);
  if (found !== undefined) return found;
  await pool.run('keeping a shared value', SQL.insert, [name, bytesToBytea(make())]);
  const kept = await findSecret(pool, name);
  if (kept === undefined) throw new Error(`the shared value ${name} was removed while it was made`);
  return kept;
}

/** Call only while no server runs: a server keeps the value that it has read. @throws StoreUnavailable */
export async function replaceSecret(pool: PostgresPool, name: string, value: Uint8Array): Promise<void> {
  await pool.run('keeping a shared value', SQL.replace, [name, bytesToBytea(value)]);
}
