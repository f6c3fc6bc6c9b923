/** The parts of the store of bytes in S3. */
import type { S3Limits } from './limits.ts';
import type { StoreMarker } from './marker.ts';
import type { ObjectKeys } from './object-key.ts';
import type { UploadUrls } from './request-signer.ts';
import type { S3Client } from './s3-client.ts';

export interface S3ContentStoreParts {
  readonly client: S3Client;
  readonly keys: ObjectKeys;
  readonly marker: StoreMarker;
  readonly uploadUrls: UploadUrls;
  readonly limits: S3Limits;
  readonly uploadTtlMs: number;
  /** upload URLs carry the time of the store, not that of the rows */
  readonly goesByStore: boolean;
}
