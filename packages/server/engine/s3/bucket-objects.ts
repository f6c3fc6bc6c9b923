/** engine/backup-ports.ts BucketObjects: what a backup of a bucket, and a restore into one, ask of it. */
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import type { S3Address } from '../address.ts';
import type { BucketObjects, FetchedObject, SentObject } from '../backup-ports.ts';
import { makeLastBackup } from './bucket-number.ts';
import { CredentialSource, openDefaultProvider } from './credentials.ts';
import { findStrongEtag } from './etag.ts';
import { AttemptFailed } from './failure.ts';
import { S3_LIMITS } from './limits.ts';
import { listKeys } from './list-keys.ts';
import { StoreMarker } from './marker.ts';
import { ObjectKeys } from './object-key.ts';
import { explainOpening, readAuthorities } from './open-s3-content-store.ts';
import { S3Client } from './s3-client.ts';

const MD5_ETAG = /^"([0-9a-f]{32})"$/;

/** Rejects with EngineRefused or StoreUnavailable; so do the calls. */
export async function openBucketObjects(address: S3Address): Promise<BucketObjects> {
  const credentials = new CredentialSource(await openDefaultProvider(), Date.now);
  const client = new S3Client({
    ...{ address, credentials, limits: S3_LIMITS, now: Date.now },
    authorities: await readAuthorities(),
  });
  return new S3BucketObjects(client, new ObjectKeys(address.prefix));
}

class S3BucketObjects implements BucketObjects {
  readonly #client: S3Client;
  readonly #keys: ObjectKeys;

  constructor(client: S3Client, keys: ObjectKeys) {
    this.#client = client;
    this.#keys = keys;
  }

  async findStoreId(): Promise<string | undefined> {
    try {
      return await new StoreMarker(this.#client, this.#keys, '', S3_LIMITS).find();
    } catch (error) {
      throw explainOpening(error);
    }
  }

  async claim(storeId: string): Promise<void> {
    await new StoreMarker(this.#client, this.#keys, storeId, S3_LIMITS).write();
  }

  async *list(part: string): AsyncIterable<readonly string[]> {
    const { nodesPrefix } = this.#keys;
    let next: string | undefined;
    do {
      const page = await listKeys(this.#client, S3_LIMITS, `${nodesPrefix}${part}/`, next);
      // Keys of another form are not ours.
      const own = page.keys.filter((key) => this.#keys.findObject(key) !== undefined);
      yield own.map((key) => key.slice(nodesPrefix.length));
      next = page.next;
    } while (next !== undefined);
  }

  fetch(path: string, begin: () => (piece: Uint8Array) => void): Promise<FetchedObject | undefined> {
    const call = { method: 'GET', key: this.#keys.nodesPrefix + path, doing: 'reading an object' } as const;
    return this.#client.send(call, async ({ status, code, headers, body }) => {
      if (status === 404 && code === 'NoSuchKey') return undefined;
      if (status !== 200) throw new AttemptFailed(`the object store answered ${status} to a read`);
      const write = begin();
      const [sha256, md5] = [new Bun.CryptoHasher('sha256'), new Bun.CryptoHasher('md5')];
      let size = 0;
      for (let piece = await body.read(); piece !== undefined; piece = await body.read()) {
        sha256.update(piece);
        md5.update(piece);
        write(piece);
        size += piece.length;
      }
      if (headers.get('content-length') !== String(size)) {
        throw new AttemptFailed('the object store sent another length than it announced');
      }
      const named = MD5_ETAG.exec(findStrongEtag(headers) ?? '')?.[1];
      const isNameOther = named !== undefined && named !== md5.digest('hex');
      return { size, sha256: sha256.digest('hex'), isNameOther };
    });
  }

  async put(path: string, body: SentObject): Promise<void> {
    const call = {
      method: 'PUT',
      key: this.#keys.nodesPrefix + path,
      headers: { 'content-type': NODE_MEDIA_TYPE, 'if-none-match': '*' },
      body,
      doing: 'restoring an object',
      // The store may take 256 bytes a millisecond.
      headMsMax: S3_LIMITS.headMsMax + body.length / 256,
    } as const;
    await this.#client.send(call, async ({ status }) => {
      if (status === 200 || status === 409 || status === 412) return;
      throw new AttemptFailed(`the object store answered ${status} to a restored object`);
    });
  }

  noteBackup(at: number): Promise<void> {
    return makeLastBackup(this.#client, this.#keys).write(at);
  }

  close(): void {
    this.#client.close();
  }
}
