/** Presigned PUTs for one key and media type, good only while the key has no object. All headers that matter are signed. */
import { SECOND_MS } from '@holdfast/protocol';
import type { SignedUpload, UploadUrlLife } from '../../core/upload-ports.ts';
import type { S3Address } from '../address.ts';
import { type BucketUrl, clientUrlOf, serverUrlOf } from './address.ts';
import type { CredentialSource } from './credentials.ts';
import { presignUrl } from './request-signer.ts';

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
