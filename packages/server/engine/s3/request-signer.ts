/**
 * AWS Signature Version 4 of our requests and upload URLs. It is our own code only for speed (docs/dependencies.md): it is
 * synchronous, keeps the key of the day, and covers only what we send: keys that need no escapes, bodies in memory.
 */
import { SECOND_MS } from '@holdfast/protocol';
import type { SignedUpload, UploadUrlLife } from '../../core/upload-ports.ts';
import { hmacSha256 } from '../../runtime/hmac.ts';
import type { S3Address } from '../address.ts';
import { type BucketUrl, clientUrlOf, serverUrlOf } from './address.ts';
import type { CredentialSource, Credentials } from './credentials.ts';

export interface SignedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | undefined;
}

/** Bytes that are read while they are sent. Their digest is known before and signed, so the store refuses other bytes. */
interface StreamedBody {
  /** 64 lowercase hex digits */
  readonly sha256: string;
  readonly length: number;
  /** Begins at the first byte; called once for each attempt. */
  open(): ReadableStream<Uint8Array>;
}

export type RequestBody = string | Uint8Array<ArrayBuffer> | StreamedBody;

export interface UnsignedRequest {
  readonly method: string;
  readonly bucket: BucketUrl;
  /** undefined: the bucket itself */
  readonly key: string | undefined;
  readonly query?: Readonly<Record<string, string>> | undefined;
  /** all are signed; names in lower case, values without outer or repeated spaces */
  readonly headers: Readonly<Record<string, string>>;
  readonly region: string;
  /** ms; date of the signature */
  readonly at: number;
}

const ALGORITHM = 'AWS4-HMAC-SHA256';
const EMPTY_BODY_DIGEST = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
/** letters, digits, `.`, `_`, `-` between single `/`, no `.` or `..` segment: the same in an address and a signature */
const PLAIN_KEY = /^(?!\.{1,2}(?:\/|$))[A-Za-z0-9._-]+(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._-]+)*$/;

/** `unsignedHeaders` are sent unsigned: a proxy between us and the store may change them. */
export function signRequest(
  request: UnsignedRequest & { readonly body?: RequestBody | undefined },
  unsignedHeaders: Readonly<Record<string, string>>,
  credentials: Credentials,
): SignedRequest {
  const { method, body } = request;
  const date = formatDate(request.at);
  const isStreamed = isStreamedBody(body);
  const digest = isStreamed ? body.sha256 : body === undefined ? EMPTY_BODY_DIGEST : sha256Hex(body);
  const headers: Record<string, string> = {
    ...request.headers,
    'x-amz-content-sha256': digest,
    'x-amz-date': date,
  };
  if (credentials.sessionToken !== undefined) headers['x-amz-security-token'] = credentials.sessionToken;
  const path = pathOf(request);
  const query = formatQuery(request.query ?? {});
  const names = signedNames(headers);
  const scope = scopeOf(date, request.region);
  const canonical = canonicalRequest(
    method,
    path,
    query,
    names,
    { ...headers, host: request.bucket.host },
    digest,
  );
  const signature = sign(credentials, scope, date, canonical);
  headers.authorization = `${ALGORITHM} Credential=${credentials.accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`;
  Object.assign(headers, unsignedHeaders, isStreamed ? { 'content-length': String(body.length) } : {});
  return { method, url: urlOf(request, path, query), headers, body: isStreamed ? body.open() : body };
}

function isStreamedBody(body: RequestBody | undefined): body is StreamedBody {
  return typeof body === 'object' && 'open' in body;
}

/** A URL that its holder may use with exactly these headers, from `at` on for `lifeSeconds`. */
export function presignUrl(
  request: UnsignedRequest & { readonly lifeSeconds: number },
  credentials: Credentials,
): string {
  const date = formatDate(request.at);
  const scope = scopeOf(date, request.region);
  const names = signedNames(request.headers);
  const path = pathOf(request);
  const query = formatQuery({
    ...request.query,
    'X-Amz-Algorithm': ALGORITHM,
    'X-Amz-Credential': `${credentials.accessKeyId}/${scope}`,
    'X-Amz-Date': date,
    'X-Amz-Expires': String(request.lifeSeconds),
    ...(credentials.sessionToken === undefined ? {} : { 'X-Amz-Security-Token': credentials.sessionToken }),
    'X-Amz-SignedHeaders': names.join(';'),
  });
  const headers = { ...request.headers, host: request.bucket.host };
  const canonical = canonicalRequest(request.method, path, query, names, headers, 'UNSIGNED-PAYLOAD');
  return `${urlOf(request, path, query)}&X-Amz-Signature=${sign(credentials, scope, date, canonical)}`;
}

function pathOf({ bucket, key }: UnsignedRequest): string {
  if (key === undefined) return bucket.path === '' ? '/' : bucket.path;
  if (!PLAIN_KEY.test(key)) throw new Error(`the object key ${key} needs escapes, which none of ours does`);
  return `${bucket.path}/${key}`;
}

function urlOf({ bucket }: UnsignedRequest, path: string, query: string): string {
  return query === '' ? bucket.origin + path : `${bucket.origin}${path}?${query}`;
}

/** Sorted by name, as the signature requires. A request may have any order, so it uses the same one. */
function formatQuery(query: Readonly<Record<string, string>>): string {
  return Object.entries(query)
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&');
}

function signedNames(headers: Readonly<Record<string, string>>): string[] {
  return ['host', ...Object.keys(headers)].sort();
}

function canonicalRequest(
  method: string,
  path: string,
  query: string,
  names: readonly string[],
  headers: Readonly<Record<string, string>>,
  bodyDigest: string,
): string {
  let lines = '';
  for (const name of names) lines += `${name}:${headers[name]}\n`;
  return `${method}\n${path}\n${query}\n${lines}\n${names.join(';')}\n${bodyDigest}`;
}

function scopeOf(date: string, region: string): string {
  return `${date.slice(0, 8)}/${region}/s3/aws4_request`;
}

function sign(credentials: Credentials, scope: string, date: string, canonical: string): string {
  const text = `${ALGORITHM}\n${date}\n${scope}\n${sha256Hex(canonical)}`;
  return hmacSha256(signingKey(credentials, scope), text).digest('hex');
}

/** A key takes four steps to derive and is good for a day, so the last one is kept. */
let lastKey: { readonly secret: string; readonly scope: string; readonly key: Uint8Array } | undefined;

function signingKey({ secretAccessKey: secret }: Credentials, scope: string): Uint8Array {
  if (lastKey?.scope === scope && lastKey.secret === secret) return lastKey.key;
  let key: string | Uint8Array = `AWS4${secret}`;
  for (const part of scope.split('/')) key = hmacSha256(key, part).digest();
  lastKey = { secret, scope, key: key as Uint8Array };
  return lastKey.key;
}

function sha256Hex(data: string | Uint8Array): string {
  return new Bun.CryptoHasher('sha256').update(data).digest('hex');
}

/** `20260131T235959Z` */
function formatDate(at: number): string {
  return new Date(at).toISOString().replace(/[-:]|\.\d{3}/g, '');
}

/** Percent-encodes everything except letters, digits and `-._~` (RFC 3986). */
function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Presigned PUTs for one key and media type, good only while the key has no object. All headers that matter are signed. */
export class UploadUrls {
  readonly #clientUrl: BucketUrl;
  readonly #serverUrl: BucketUrl;
  readonly #region: string;
  readonly #credentials: CredentialSource;
  #guards: Readonly<Record<string, string>> = {};

  constructor(address: S3Address, credentials: CredentialSource) {
    this.#clientUrl = clientUrlOf(address);
    this.#serverUrl = serverUrlOf(address);
    this.#region = address.region;
    this.#credentials = credentials;
  }

  /** Signs these headers too from now on. */
  guardWith(guards: Readonly<Record<string, string>>): void {
    this.#guards = guards;
  }

  /**
   * The URL is good until `expiresAt` at the latest, because its life is counted in whole seconds, and no longer than the credentials
   * that sign it. Both instants come from the clock of the rows, because the clocks of processes may differ. `aheadMs`: whole seconds
   * that the store is ahead of that clock.
   */
  async sign(
    key: string,
    { issuedAt, expiresAt, aheadMs = 0 }: UploadUrlLife & { readonly aheadMs?: number },
    mediaType: string,
    audience: 'clients' | 'servers' = 'clients',
  ): Promise<SignedUpload> {
    const credentials = await this.#credentials.get();
    const signerEndsAt = credentials.expiration?.getTime() ?? Number.POSITIVE_INFINITY;
    const endsAt = Math.floor(Math.min(expiresAt + aheadMs, signerEndsAt) / SECOND_MS);
    const beginsAt = Math.min(Math.floor((issuedAt + aheadMs) / SECOND_MS), endsAt - 1);
    const headers = { 'content-type': mediaType, 'if-none-match': '*', ...this.#guards };
    const request = {
      method: 'PUT',
      bucket: audience === 'clients' ? this.#clientUrl : this.#serverUrl,
      key,
      headers,
      region: this.#region,
      at: beginsAt * SECOND_MS,
      lifeSeconds: endsAt - beginsAt,
    };
    return { url: presignUrl(request, credentials), headers, expiresAt: endsAt * SECOND_MS - aheadMs };
  }
}
