/** The secrets that all processes of a database sign with (core/signing-secrets.ts), in two rows. */
import { randomBytes } from 'node:crypto';
import {
  formatSecrets,
  onlySecret,
  parseSecrets,
  SECRET_BYTES,
  type SigningSecrets,
} from '../../core/signing-secrets.ts';
import { EngineRefused } from '../refused.ts';
import { findOrCreateSecret, findSecretPair, replaceSecretPair } from './secrets.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

/** The newest secret alone, as older processes read it, and all. If they differ, such a process replaced it and the second row is void. */
const NAMES = ['signer', 'signer-all'] as const;

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
