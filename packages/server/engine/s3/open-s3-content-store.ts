/** Opens the bucket after checking that it belongs to this deployment and passes the probe. */

import type { Clock, ContentStore } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { codeOf } from '../../error-code.ts';
import type { S3Address } from '../address.ts';
import { readPlainFile } from '../given-file.ts';
import { EngineRefused } from '../refused.ts';
import type { StoreIdentity } from '../store-identity.ts';
import type { ContentIntake } from '../transfer-ports.ts';
import { S3ContentStore } from './content-store.ts';
import type { S3ContentStoreParts } from './content-store-parts.ts';
import { type CredentialProvider, CredentialSource, openDefaultProvider } from './credentials.ts';
import { S3ContentIntake } from './deployment-content.ts';
import { AttemptFailed, CertificateRefused, CredentialsMissing, RequestRefused } from './failure.ts';
import { S3_LIMITS, type S3Limits } from './limits.ts';
import { StoreMarker } from './marker.ts';
import { ObjectKeys } from './object-key.ts';
import { probeStore } from './probe.ts';
import { UploadUrls } from './request-signer.ts';
import { S3Client } from './s3-client.ts';

/** PEM; undefined: those that the runtime trusts. Rejects with EngineRefused. */
export async function readAuthorities(variables = process.env): Promise<string | undefined> {
  const { AWS_CA_BUNDLE: bundle, NODE_EXTRA_CA_CERTS: extra } = variables;
  if (!bundle) return undefined;
  // The certificates of a request replace those that the runtime trusts, NODE_EXTRA_CA_CERTS included.
  const names = { AWS_CA_BUNDLE: bundle, ...(extra ? { NODE_EXTRA_CA_CERTS: extra } : {}) };
  return (await Promise.all(Object.entries(names).map(readCertificates))).join('\n');
}

async function readCertificates([name, path]: [string, string]): Promise<string> {
  const text = await readPlainFile(`${name} names a path that cannot be used:`, path).catch(
    (cause: unknown) => {
      const message = codeOf(cause) === undefined ? (cause as Error).message : undefined;
      throw new EngineRefused(message ?? `${name} names ${path}, which cannot be read: check its rights`, {
        cause,
      });
    },
  );
  if (text === undefined)
    throw new EngineRefused(`${name} names ${path}, which does not exist: check the path`);
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  throw new EngineRefused(`${name} names ${path}, which holds no certificate in PEM`);
}

export interface S3ContentStoreConfig {
  readonly address: S3Address;
  readonly uploadTtlMs: number;
  readonly identity: StoreIdentity;
  /** finds credentials; undefined: as every AWS tool does */
  readonly credentials?: CredentialProvider;
  readonly limits?: Partial<S3Limits>;
  /** ms since the epoch, for signatures and probe keys */
  readonly now?: () => number;
  /** the clock of the rows if it cannot be set: it may be wrong, so upload URLs then carry the time of the store */
  readonly rowsClock?: Clock | undefined;
}

/** The content store, and the intake for a copy. Rejects with EngineRefused (not fit) or StoreUnavailable (not now). */
export async function openS3ContentStore(
  config: S3ContentStoreConfig,
): Promise<{ readonly content: ContentStore; readonly intake: ContentIntake }> {
  const parts = await openBucketParts(config);
  return { content: new S3ContentStore(parts), intake: new S3ContentIntake(parts) };
}

async function openBucketParts(config: S3ContentStoreConfig): Promise<S3ContentStoreParts> {
  const { address, uploadTtlMs, identity, now = Date.now, rowsClock } = config;
  const limits = { ...S3_LIMITS, ...config.limits };
  const provide = config.credentials ?? (await openDefaultProvider());
  const credentials = new CredentialSource(provide, now);
  const authorities = await readAuthorities();
  const signingNow = rowsClock === undefined ? now : () => rowsClock.now();
  const client = new S3Client({ address, credentials, limits, now: signingNow, authorities });
  const keys = new ObjectKeys(address.prefix);
  const marker = new StoreMarker(client, keys, identity.storeId, limits);
  const uploadUrls = new UploadUrls(address, credentials);
  try {
    await assertOurs(marker, identity);
    await probeStore({ client, keys, uploadUrls, limits, bucket: address.bucket });
    // Only after the probe: rows that were bound to a refused store could not be used with another one.
    await claimBucket(marker, identity);
  } catch (error) {
    client.close();
    throw explainOpening(error);
  }
  return { client, keys, marker, uploadUrls, limits, uploadTtlMs, goesByStore: rowsClock !== undefined };
}

/** Refuses another deployment's bucket: each would delete the other's objects as strays. Resolves whether there is a marker. */
async function assertOurs(marker: StoreMarker, { storeId, isMarked }: StoreIdentity): Promise<boolean> {
  const found = await marker.find();
  if (found === storeId) return true;
  if (found !== undefined) {
    throw new EngineRefused(
      'the bucket belongs to other rows than those of --metadata or --data; name the right one, or give --content a prefix of its own: s3://BUCKET/PREFIX',
    );
  }
  if (isMarked) {
    throw new EngineRefused(
      'the bucket has lost its marker object, or is not the one these rows belong to; correct --content, or restore the bucket',
    );
  }
  return false;
}

async function claimBucket(marker: StoreMarker, identity: StoreIdentity): Promise<void> {
  if (!(await assertOurs(marker, identity))) {
    await marker.write();
    // Another deployment may have written its marker first.
    if (!(await assertOurs(marker, identity))) {
      throw new EngineRefused(
        'the bucket does not keep the marker object that was written to it; use another',
      );
    }
  }
  if (!identity.isMarked) await identity.noteMarked();
}

/** Says whether waiting may help. */
export function explainOpening(error: unknown): unknown {
  const finals = [RequestRefused, CredentialsMissing, CertificateRefused];
  if (error instanceof StoreUnavailable && finals.some((each) => error instanceof each))
    return new EngineRefused(error.message, { cause: error });
  if (!(error instanceof AttemptFailed) && !(error instanceof StoreUnavailable)) return error;
  return new StoreUnavailable(`${error.message} (--content names it)`, { cause: error });
}
