/** The marker object holds the deployment's id. It proves that the bucket is the right one; only then its answers about objects count. */
import { StoreUnavailable } from '../../core/store-failure.ts';
import { AttemptFailed } from './failure.ts';
import type { S3Limits } from './limits.ts';
import type { ObjectKeys } from './object-key.ts';
import type { S3Client } from './s3-client.ts';

export class StoreMarker {
  readonly #client: S3Client;
  readonly #key: string;
  readonly #storeId: string;
  readonly #healthMs: number;
  #healthyAt = Number.NEGATIVE_INFINITY;

  constructor(client: S3Client, keys: ObjectKeys, storeId: string, limits: S3Limits) {
    this.#client = client;
    this.#key = keys.marker;
    this.#storeId = storeId;
    this.#healthMs = limits.healthMs;
  }

  /** The id in the bucket's marker; `undefined` if there is no marker. */
  find(): Promise<string | undefined> {
    const call = { method: 'GET', key: this.#key, doing: 'reading the marker of the bucket' } as const;
    return this.#client.send(call, async ({ status, code, body }) => {
      if (status === 404 && code === 'NoSuchKey') return undefined;
      if (status !== 200) throw new AttemptFailed(`the marker of the bucket answered ${status}`);
      return body.readText(1024);
    });
  }

  /** Writes the marker, unless there is one already. */
  async write(): Promise<void> {
    const call = {
      method: 'PUT',
      key: this.#key,
      headers: { 'if-none-match': '*', 'content-type': 'text/plain' },
      body: this.#storeId,
      doing: 'writing the marker of the bucket',
    } as const;
    await this.#client.send(call, async ({ status }) => {
      if (status !== 200 && status !== 409 && status !== 412) {
        throw new AttemptFailed(`the marker of the bucket answered ${status}`);
      }
    });
  }

  /** Reads the marker now. Rejects with StoreUnavailable unless the bucket is the right one. */
  async assertHealthy(): Promise<void> {
    const askedAt = performance.now();
    if ((await this.find()) !== this.#storeId) {
      throw new StoreUnavailable(
        'the bucket is not the store these rows belong to: its marker object is gone or another; check --content',
      );
    }
    this.#healthyAt = askedAt;
  }

  /** The same, but a look of a few seconds ago is enough. Use it where no proof depends on it. */
  async assertRecentlyHealthy(): Promise<void> {
    if (performance.now() - this.#healthyAt > this.#healthMs) await this.assertHealthy();
  }
}
