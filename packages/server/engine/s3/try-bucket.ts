/** Looks whether a bucket can be used, without making anything in it. The probe of a start writes, so it is left to that. */
import type { S3Address } from '../address.ts';
import type { BytesTrial } from '../store-trial.ts';
import { makeBucketEpoch } from './bucket-number.ts';
import { CredentialSource, openDefaultProvider } from './credentials.ts';
import { AttemptFailed } from './failure.ts';
import { S3_LIMITS } from './limits.ts';
import { StoreMarker } from './marker.ts';
import { ObjectKeys } from './object-key.ts';
import { explainOpening, readAuthorities } from './open-s3-content-store.ts';
import { S3Client } from './s3-client.ts';

/** @throws EngineRefused, StoreUnavailable */
export async function tryBucket(address: S3Address): Promise<BytesTrial> {
  const credentials = new CredentialSource(await openDefaultProvider(), Date.now);
  const client = new S3Client({
    ...{ address, credentials, limits: S3_LIMITS, now: Date.now },
    authorities: await readAuthorities(),
  });
  const keys = new ObjectKeys(address.prefix);
  try {
    const storeId = await new StoreMarker(client, keys, '', S3_LIMITS).find();
    const epoch = await makeBucketEpoch(client, keys).read();
    return { storeId, epoch, clockAheadMs: await readClockAhead(client, keys) };
  } catch (error) {
    throw explainOpening(error);
  } finally {
    client.close();
  }
}

/** By the second, as the store dates its answers; undefined: it does not. */
async function readClockAhead(client: S3Client, keys: ObjectKeys): Promise<number | undefined> {
  const call = { method: 'HEAD', key: keys.marker, doing: 'reading the clock of the store' } as const;
  return client.send(call, async ({ status, headers }) => {
    if (status !== 200 && status !== 404) throw new AttemptFailed(`the object store answered ${status}`);
    const storeNow = Date.parse(headers.get('date') ?? '');
    return Number.isFinite(storeNow) ? storeNow - Date.now() : undefined;
  });
}
