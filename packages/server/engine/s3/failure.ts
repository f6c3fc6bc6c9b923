/** The failures of requests to the store. */
import { StoreUnavailable } from '../../core/store-failure.ts';

/** After these the same request may succeed. 501 is none of them: the store cannot do what it was asked. */
export const PASSING_STATUSES: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** One attempt failed, and another may succeed: no connection, a time-out, a broken body, a 5xx. */
export class AttemptFailed extends Error {
  override readonly name = 'AttemptFailed';
}

/** Why an attempt failed, without the address: an upload URL contains its signature, and causes are logged. */
export function causeOf(error: unknown): Error {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  const said = String(message ?? error).replace(/https?:\/\/\S+/g, 'the object store');
  return new Error(typeof code === 'string' ? `${code}: ${said}` : said);
}

/** The answer contradicts the object's record (absent, ETag, length). Proof needs a second look in a healthy store (object-proof.ts). */
export class RecordContradicted extends Error {
  override readonly name = 'RecordContradicted';
}

/** There are no credentials to sign with. */
export class CredentialsMissing extends StoreUnavailable {
  constructor(cause: unknown) {
    super(
      'there are no AWS credentials; give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role',
      { cause },
    );
  }
}

/** The store's certificate is not accepted. To ask again does not help. */
export class CertificateRefused extends StoreUnavailable {
  constructor(host: string, { code, isUntrusted }: { code: string; isUntrusted: boolean }, cause: Error) {
    const advice = isUntrusted
      ? 'name the PEM file of its authority in AWS_CA_BUNDLE'
      : 'renew it, or correct the address and the clock';
    super(`the certificate of the object store at ${host} is not accepted (${code}): ${advice}`, { cause });
  }
}

/** The store refused this request for good: wrong credentials, no permission, no such bucket. */
export class RequestRefused extends StoreUnavailable {
  constructor(doing: string, status: number, code: string | undefined) {
    super(
      `the object store refused ${doing} (${status}${code === undefined ? '' : ` ${code}`}): ${hint(code)}`,
    );
  }
}

const HINTS: Readonly<Record<string, string>> = {
  AccessDenied: 'give the credentials the right to read, write, delete and list in this bucket',
  InvalidAccessKeyId: 'the store does not know the access key; check AWS_ACCESS_KEY_ID or the profile',
  SignatureDoesNotMatch: 'check AWS_SECRET_ACCESS_KEY, and that no proxy changes the requests',
  ExpiredToken: 'the credentials have expired; renew them',
  NotImplemented: 'the store does not have what Holdfast needs of S3; use one that does',
  NoSuchBucket: 'the bucket does not exist; create it or correct --content',
  PermanentRedirect: 'the bucket is in another region; name it in --content with region=',
  AuthorizationHeaderMalformed: 'the bucket may be in another region; name it in --content with region=',
  RequestTimeTooSkewed: 'the clocks of server and store differ by minutes; set them',
};

function hint(code: string | undefined): string {
  return HINTS[code ?? ''] ?? 'check --content, the credentials and the rules of the bucket';
}
