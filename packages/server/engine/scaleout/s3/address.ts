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

/** The bucket itself as servers address it, without a slash at the end. */
export function serverUrlOf(address: S3Address): string {
  return bucketUrl(address, address.endpoint ?? awsEndpoint(address.region));
}

/** The same for the holders of upload URLs. */
export function clientUrlOf(address: S3Address): string {
  return bucketUrl(address, address.publicEndpoint ?? address.endpoint ?? awsEndpoint(address.region));
}

function bucketUrl({ bucket, style }: S3Address, endpoint: string): string {
  if (style === 'path') return `${endpoint}/${bucket}`;
  const { protocol, host } = new URL(endpoint);
  return `${protocol}//${bucket}.${host}`;
}

function awsEndpoint(region: string): string {
  const domain = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
  return `https://s3.${region}.${domain}`;
}
