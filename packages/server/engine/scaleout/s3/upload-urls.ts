/**
 * Upload URLs: presigned PUTs that the store itself judges, for one key, one media type, and only where no object is yet. All
 * headers that matter are signed, so the store refuses a request that leaves one out or changes it.
 */
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import type { S3Address } from '../../../engine-urls.ts';
import { type BucketUrl, clientUrlOf, serverUrlOf } from './address.ts';
import type { CredentialSource } from './credentials.ts';
import { presignUrl } from './request-signer.ts';

export interface UploadTarget {
  readonly url: string;
  readonly headers: Record<string, string>;
}

const SECOND_MS = 1000;

export class UploadUrls {
  readonly #clientUrl: BucketUrl;
  readonly #serverUrl: BucketUrl;
  readonly #region: string;
  readonly #credentials: CredentialSource;
  readonly #uploadTtlMs: number;
  #guards: Readonly<Record<string, string>> = {};

  constructor(address: S3Address, credentials: CredentialSource, uploadTtlMs: number) {
    this.#clientUrl = clientUrlOf(address);
    this.#serverUrl = serverUrlOf(address);
    this.#region = address.region;
    this.#credentials = credentials;
    this.#uploadTtlMs = uploadTtlMs;
  }

  /** Headers that are signed besides the usual ones from now on. */
  guardWith(guards: Readonly<Record<string, string>>): void {
    this.#guards = guards;
  }

  /**
   * Good until `expiresAt` (ms) at the latest, in whole seconds. Its date is reckoned back from there and not read from our
   * clock: the instant comes from the rows' own clock, and processes may differ.
   */
  async sign(
    key: string,
    expiresAt: number,
    audience: 'clients' | 'servers' = 'clients',
  ): Promise<UploadTarget> {
    const endsAt = Math.floor(expiresAt / SECOND_MS);
    const beginsAt = Math.min(Math.floor((expiresAt - this.#uploadTtlMs) / SECOND_MS), endsAt - 1);
    const headers = { 'content-type': NODE_MEDIA_TYPE, 'if-none-match': '*', ...this.#guards };
    const request = {
      method: 'PUT',
      bucket: audience === 'clients' ? this.#clientUrl : this.#serverUrl,
      key,
      headers,
      region: this.#region,
      at: beginsAt * SECOND_MS,
      lifeSeconds: endsAt - beginsAt,
    };
    return { url: presignUrl(request, await this.#credentials.get()), headers };
  }
}
