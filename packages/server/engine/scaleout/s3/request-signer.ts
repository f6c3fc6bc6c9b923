/** AWS Signature Version 4 of our requests and of the upload URLs we hand out. */
import { AwsV4Signer } from 'aws4fetch';
import type { Credentials } from './credentials.ts';

export interface SignedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer> | undefined;
}

interface Unsigned extends SignedRequest {
  readonly region: string;
  /** ms */
  readonly at: number;
}

/** Signing keys by day and secret; one a day, so the few of a long life are no burden. */
const signingKeys = new Map<string, ArrayBuffer>();

export async function signRequest(request: Unsigned, credentials: Credentials): Promise<SignedRequest> {
  const { method, url, body } = request;
  const headers = { ...request.headers, 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD' };
  const signer = new AwsV4Signer({ ...signerOptions(request, credentials), headers });
  const signed = await signer.sign();
  return { method, url, headers: Object.fromEntries(signed.headers), body };
}

/** The URL that whoever holds it may send `method` to, with exactly `headers`, until `at` + `lifeSeconds`. */
export async function presignUrl(
  request: Omit<Unsigned, 'body'> & { readonly lifeSeconds: number },
  credentials: Credentials,
): Promise<string> {
  const url = new URL(request.url);
  url.searchParams.set('X-Amz-Expires', String(request.lifeSeconds));
  const signer = new AwsV4Signer({
    ...signerOptions(request, credentials),
    url: url.href,
    headers: request.headers,
    signQuery: true,
    allHeaders: true,
  });
  return (await signer.sign()).url.href;
}

function signerOptions({ method, url, region, at }: Unsigned, credentials: Credentials) {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  return {
    ...{ method, url, region, accessKeyId, secretAccessKey },
    ...(sessionToken === undefined ? {} : { sessionToken }),
    service: 's3',
    datetime: new Date(at).toISOString().replace(/[:-]|\.\d{3}/g, ''),
    cache: signingKeys,
  };
}
