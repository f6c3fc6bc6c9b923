/** The address of the bucket in requests. Pure. */
import type { S3Address } from '../address.ts';

/** An object's address is `origin` + `path` + `/` + key. */
export interface BucketUrl {
  readonly origin: string;
  /** as clients send it in `Host` */
  readonly host: string;
  /** empty, or `/` and the bucket */
  readonly path: string;
}

/** The address that servers use. */
export function serverUrlOf(address: S3Address): BucketUrl {
  return bucketUrl(address, address.endpoint ?? awsEndpoint(address.region));
}

/** The address that holders of upload URLs use. */
export function clientUrlOf(address: S3Address): BucketUrl {
  return bucketUrl(address, address.publicEndpoint ?? address.endpoint ?? awsEndpoint(address.region));
}

function bucketUrl({ bucket, style }: S3Address, endpoint: string): BucketUrl {
  const { protocol, host, origin } = new URL(endpoint);
  if (style === 'path') return { origin, host, path: `/${bucket}` };
  return { origin: `${protocol}//${bucket}.${host}`, host: `${bucket}.${host}`, path: '' };
}

function awsEndpoint(region: string): string {
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
  return `https://s3.${region}.${domain}`;
}
