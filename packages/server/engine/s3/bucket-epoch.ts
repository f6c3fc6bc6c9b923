/** The epoch of the bucket (core/store-epoch.ts): a decimal number in an object of its own. */
import { StoreUnavailable } from '../../core/store-failure.ts';
import type { StoreEpoch } from '../../core/stray-ports.ts';
import { AttemptFailed } from './failure.ts';
import type { ObjectKeys } from './object-key.ts';
import type { S3Client } from './s3-client.ts';

const EPOCH_BYTES_MAX = 64;
const EPOCH = /^\d{1,15}$/;

export class BucketEpoch implements StoreEpoch {
  readonly #client: S3Client;
  readonly #key: string;

  constructor(client: S3Client, keys: ObjectKeys) {
    this.#client = client;
    this.#key = keys.epoch;
  }

  read(): Promise<number | undefined> {
    const call = { method: 'GET', key: this.#key, doing: 'reading the epoch of the bucket' } as const;
    return this.#client.send(call, async ({ status, code, body }) => {
      if (status === 404 && code === 'NoSuchKey') return undefined;
      if (status !== 200) throw new AttemptFailed(`the epoch of the bucket answered ${status}`);
      const text = (await body.readText(EPOCH_BYTES_MAX)).trim();
      if (EPOCH.test(text)) return Number(text);
      throw new StoreUnavailable(
        `the object ${this.#key} of the bucket holds no epoch: restore or remove it`,
      );
    });
  }

  async write(epoch: number): Promise<void> {
    const call = {
      method: 'PUT',
      key: this.#key,
      headers: { 'content-type': 'text/plain' },
      body: String(epoch),
      doing: 'moving the epoch of the bucket on',
    } as const;
    await this.#client.send(call, async ({ status }) => {
      if (status !== 200) throw new AttemptFailed(`the epoch of the bucket answered ${status}`);
    });
  }
}
