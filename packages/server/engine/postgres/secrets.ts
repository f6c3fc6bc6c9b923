/** Small values that all processes of a database share. A value is made once: the first process to insert wins. */
import { randomBytes, randomUUID } from 'node:crypto';
import {
  formatSecrets,
  onlySecret,
  parseSecrets,
  SECRET_BYTES,
  type SigningSecrets,
} from '../../core/signing-secrets.ts';
import { EngineRefused } from '../refused.ts';
import type { StoreIdentity } from '../store-identity.ts';
import { sharedSum } from './row-sums.ts';
import type { PostgresPool } from './wire/connection-pool.ts';
import { byteaToBytes, bytesToBytea } from './wire/wire-messages.ts';

const SQL = {
  find: 'SELECT value FROM secrets WHERE name = $1',
  insert: 'INSERT INTO secrets (name, value, row_sum) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING',
  findPair: 'SELECT name, value FROM secrets WHERE name IN ($1, $2)',
  /** $5 and $6 sums */
  replacePair: `INSERT INTO secrets (name, value, row_sum) VALUES ($1, $3::bytea, $5), ($2, $4::bytea, $6)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, row_sum = excluded.row_sum`,
  exchangePair: `WITH changed AS (UPDATE secrets SET value = $3::bytea, row_sum = $5 WHERE name = $1 AND value = $7::bytea RETURNING 1)
    INSERT INTO secrets (name, value, row_sum) SELECT $2, $4::bytea, $6::bigint FROM changed
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, row_sum = excluded.row_sum`,
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
  const made = make();
  await pool.run('keeping a shared value', SQL.insert, [name, bytesToBytea(made), sharedSum(name, made)]);
  const kept = await findSecret(pool, name);
  if (kept === undefined) throw new Error(`the shared value ${name} was removed while it was made`);
  return kept;
}

/** The values of both names, as of one moment. @throws StoreUnavailable */
async function findSecretPair(
  pool: PostgresPool,
  names: readonly [string, string],
): Promise<readonly [Uint8Array | undefined, Uint8Array | undefined]> {
  const { rows } = await pool.read('reading a shared value', SQL.findPair, names);
  const [first, second] = names.map((name) => rows.find((row) => row.name === name));
  const bytesOf = (row: typeof first) => (row === undefined ? undefined : byteaToBytes(row.value));
  return [bytesOf(first), bytesOf(second)];
}

/** Both at once. With `expected`: false, and nothing is written, unless that is the first one's value. @throws StoreUnavailable */
async function replaceSecretPair(
  pool: PostgresPool,
  names: readonly [string, string],
  values: readonly [Uint8Array, Uint8Array],
  expected?: Uint8Array,
): Promise<boolean> {
  const sums = values.map((value, index) => sharedSum(names[index] as string, value));
  const parameters = [...names, ...values.map(bytesToBytea), ...sums];
  const { count } = await (expected === undefined
    ? pool.run('keeping a shared value', SQL.replacePair, parameters)
    : pool.run('keeping a shared value', SQL.exchangePair, [...parameters, bytesToBytea(expected)]));
  return count > 0;
}

/** The newest secret alone, as older processes read it, and all. If they differ, such a process replaced it and the second row is void. */
const NAMES = ['signer', 'signer-all'] as const;

/** The secrets that all processes of a database sign with (core/signing-secrets.ts), in two rows. */
export async function findSigningSecrets(pool: PostgresPool): Promise<SigningSecrets | undefined> {
  const [newest, all] = await findSecretPair(pool, NAMES);
  if (newest === undefined) return undefined;
  const secrets = all === undefined ? onlySecret(newest) : parseSecrets(all);
  if (secrets === undefined) throw new EngineRefused('the shared secret is damaged: restore the database');
  return Bun.deepEquals(newestOf(secrets), newest) ? secrets : onlySecret(newest);
}

export async function readSigningSecrets(pool: PostgresPool): Promise<SigningSecrets> {
  const found = await findSigningSecrets(pool);
  return found ?? onlySecret(await findOrCreateSecret(pool, NAMES[0], () => randomBytes(SECRET_BYTES)));
}

export async function replaceSigningSecrets(pool: PostgresPool, to: SigningSecrets): Promise<void> {
  await replaceSecretPair(pool, NAMES, [newestOf(to), formatSecrets(to)]);
}

/** False if another process was first. */
export function exchangeSigningSecrets(
  pool: PostgresPool,
  from: SigningSecrets,
  to: SigningSecrets,
): Promise<boolean> {
  return replaceSecretPair(pool, NAMES, [newestOf(to), formatSecrets(to)], newestOf(from));
}

const newestOf = (secrets: SigningSecrets): Uint8Array => (secrets.at(-1) ?? secrets[0]).secret;

export const STORE_ID = 'content-store-id';
export const STORE_MARK = 'content-store-marked';

/** @throws StoreUnavailable */
export async function openStoreIdentity(pool: PostgresPool): Promise<StoreIdentity> {
  const id = await findOrCreateSecret(pool, STORE_ID, () => Buffer.from(randomUUID()));
  return {
    storeId: Buffer.from(id).toString(),
    isMarked: (await findSecret(pool, STORE_MARK)) !== undefined,
    async noteMarked() {
      await findOrCreateSecret(pool, STORE_MARK, () => new Uint8Array([1]));
    },
  };
}
