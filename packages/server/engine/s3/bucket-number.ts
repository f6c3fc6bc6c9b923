/** A decimal number in an object of its own: the epoch of the bucket (core/store-epoch.ts), and when it was last backed up. */

import type { StoredNumber } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { AttemptFailed } from './failure.ts';
import type { ObjectKeys } from './object-key.ts';
import type { S3Client } from './s3-client.ts';

const NUMBER = /^\d{1,15}$/;

export const makeBucketEpoch = (client: S3Client, keys: ObjectKeys): StoredNumber =>
  new BucketNumber(client, keys.epoch, 'the epoch of the bucket');

/** ms since the epoch */
export const makeLastBackup = (client: S3Client, keys: ObjectKeys): StoredNumber =>
  new BucketNumber(client, keys.lastBackup, "the time of the bucket's last backup");

class BucketNumber implements StoredNumber {
  readonly #client: S3Client;
  readonly #key: string;
  readonly #name: string;

  constructor(client: S3Client, key: string, name: string) {
    this.#client = client;
    this.#key = key;
    this.#name = name;
  }

  read(): Promise<number | undefined> {
    const call = { method: 'GET', key: this.#key, doing: `reading ${this.#name}` } as const;
    return this.#client.send(call, async ({ status, code, body }) => {
      if (status === 404 && code === 'NoSuchKey') return undefined;
      if (status !== 200) throw new AttemptFailed(`${this.#name} answered ${status}`);
      const text = (await body.readText(64)).trim();
      if (NUMBER.test(text)) return Number(text);
      throw new StoreUnavailable(
        `the object ${this.#key} of the bucket does not hold ${this.#name}: restore or remove it`,
      );
    });
  }

  async write(number: number): Promise<void> {
    const call = {
      method: 'PUT',
      key: this.#key,
      headers: { 'content-type': 'text/plain' },
      body: String(number),
      doing: `writing ${this.#name}`,
    } as const;
    await this.#client.send(call, async ({ status }) => {
      if (status !== 200) throw new AttemptFailed(`${this.#name} answered ${status}`);
    });
  }
}
