/** engine/store-identity.ts among the values that all processes of a database share. */
import { randomUUID } from 'node:crypto';
import type { StoreIdentity } from '../store-identity.ts';
import { findOrCreateSecret, findSecret } from './secrets.ts';
import type { PostgresPool } from './wire/connection-pool.ts';

const ID = 'content-store-id';
const MARK = 'content-store-marked';

/** @throws StoreUnavailable */
export async function openStoreIdentity(pool: PostgresPool): Promise<StoreIdentity> {
  const id = await findOrCreateSecret(pool, ID, () => Buffer.from(randomUUID()));
  return {
    storeId: Buffer.from(id).toString(),
    isMarked: (await findSecret(pool, MARK)) !== undefined,
    async noteMarked() {
      await findOrCreateSecret(pool, MARK, () => new Uint8Array([1]));
    },
  };
}
