/** Composition of the bytes in S3, beside whichever rows. */
import { type ContentStore, StoreUnavailable } from '../core/ports.ts';
import type { S3Address } from '../engine/address.ts';
import { EngineRefused } from '../engine/refused.ts';
import { openS3ContentStore, type StoreIdentity } from '../engine/s3/open-s3-content-store.ts';
import { ServeError } from '../errors.ts';
import type { Log } from '../log.ts';
import { nameBucket } from './place.ts';
import { attemptStart } from './start-attempts.ts';

interface BucketOptions {
  readonly address: S3Address;
  readonly uploadTtlMs: number;
  readonly log: Log;
  /** which bucket belongs to the rows; asked again for each try */
  readonly readIdentity: () => Promise<StoreIdentity>;
}

/** Tries for a while when the store is away. Rejects with ServeError, or with what `readIdentity` throws. */
export async function openBucket({
  address,
  uploadTtlMs,
  log,
  readIdentity,
}: BucketOptions): Promise<ContentStore> {
  const place = address.endpoint ?? `AWS, ${address.region}`;
  try {
    return await attemptStart({
      name: `S3 (${place})`,
      open: async () => openS3ContentStore({ address, uploadTtlMs, identity: await readIdentity() }),
      isPassing: (error) => error instanceof StoreUnavailable,
      log,
    });
  } catch (error) {
    if (!(error instanceof EngineRefused) && !(error instanceof StoreUnavailable)) throw error;
    const store = `--content, ${nameBucket({ kind: 's3', address })}`;
    throw new ServeError(`${store}: ${error.message}`, { cause: error });
  }
}
