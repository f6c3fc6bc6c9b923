/** Where the bucket is, and how keys are written into addresses. Pure. */

/** A bucket, or a part of one, in a store that speaks S3. */
export interface S3Address {
  readonly bucket: string;
  /** what every key begins with: empty, or a path of letters, digits, `.`, `_`, `-` that ends in `/` */
  readonly prefix: string;
  /** origin that servers send requests to; undefined: the one of AWS in `region` */
  readonly endpoint: string | undefined;
  /** origin of upload URLs, where clients reach the store by another name than servers; undefined: `endpoint` */
  readonly publicEndpoint: string | undefined;
  readonly region: string;
  /** where the bucket stands in an address: before its path, or before its host */
  readonly style: 'path' | 'virtual';
}

/** The bucket in addresses: `origin` + `path` + `/` + key. */
export interface BucketUrl {
  readonly origin: string;
  /** as clients say it in `Host` */
  readonly host: string;
  /** empty, or `/` and the bucket */
  readonly path: string;
}

/** As servers address the bucket. */
export function serverUrlOf(address: S3Address): BucketUrl {
  return bucketUrl(address, address.endpoint ?? awsEndpoint(address.region));
}

/** As the holders of upload URLs do. */
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
