/** engine/store-identity.ts among the values that all processes of a database share. */
import { randomUUID } from 'node:crypto';
import type { StoreIdentity } from '../store-identity.ts';
import { findOrCreateSecret, findSecret } from './secrets.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

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
