/**
 * engine/transfer-ports.ts ContentIntake on S3: one conditional PUT per object. The node's hash is the digest of its canonical
 * bytes, so it is signed with the request, and the store itself refuses other bytes. In addition the last bytes are sent only
 * after the digest of the whole body proved right, so that wrong bytes never become an object.
 */
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { toByteStream } from '../../core/byte-stream.ts';
import type { StoredObject } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import type { ContentIntake, IntakeTarget, TakenContent } from '../transfer-ports.ts';
import type { S3ContentStoreParts } from './content-store-parts.ts';
import { etagToIntegrity, findEtagOf, findStrongEtag } from './etag.ts';
import { AttemptFailed } from './failure.ts';
import { inspectObject } from './object-inspection.ts';
import type { S3Answer, S3Call } from './s3-client.ts';

type IntakeParts = Pick<S3ContentStoreParts, 'client' | 'keys' | 'marker' | 'limits'>;

export class S3ContentIntake implements ContentIntake {
  readonly uploads = 'direct';
  readonly #parts: IntakeParts;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
  }

  async take(target: IntakeTarget, open: () => ReadableStream<Uint8Array>): Promise<TakenContent> {
    const { hash, canonicalSize } = target;
    const sending = new CheckedSending(open, hash, canonicalSize);
    const { client, limits } = this.#parts;
    const key = this.#parts.keys.keyIn(target.space, target.generation);
    const call: S3Call = {
      method: 'PUT',
      key,
      headers: { 'content-type': NODE_MEDIA_TYPE, 'if-none-match': '*' },
      body: sending,
      doing: 'copying content',
      // The store may take 256 bytes a millisecond.
      headMsMax: limits.headMsMax + canonicalSize / 256,
    };
    let etag: string | undefined;
    try {
      etag = await client.send(call, async (answer) => etagOfPut(answer));
    } catch (error) {
      // A failure of the source is the cause, and the store's answer to the broken body only its effect.
      if (sending.failure !== undefined) throw sending.failure;
      if (sending.isWrong) return { isRight: false };
      throw error;
    }
    const integrity = etag === undefined ? await this.#recognise(target, key) : etagToIntegrity(etag);
    return { isRight: true, integrity, inlineBytes: undefined, release: async () => undefined };
  }

  async isThere(object: StoredObject): Promise<boolean> {
    const { client, keys, marker } = this.#parts;
    const call = {
      method: 'HEAD',
      key: keys.keyIn(object.space, object.generation),
      doing: 'looking for an object',
    } as const;
    const isThere = await client.send(call, async ({ status, headers }) => {
      if (status === 404) return false;
      if (status !== 200) throw new AttemptFailed(`the object store answered ${status} about an object`);
      const hasLength = headers.get('content-length') === String(object.canonicalSize);
      return hasLength && findStrongEtag(headers) === findEtagOf(object.integrity);
    });
    if (!isThere) await marker.assertRecentlyHealthy();
    return isThere;
  }

  /** Accepts the object of an earlier run under the key, if it holds exactly these bytes. */
  async #recognise({ hash, canonicalSize, space }: IntakeTarget, key: string): Promise<Uint8Array> {
    const found = await inspectObject(this.#parts, { key, space }, hash, {
      nodeBytesMax: canonicalSize,
    });
    // The store is still busy with another attempt for the same key: the next try will see its outcome.
    if (!found.found) throw new StoreUnavailable(`the object store is still taking the object ${key}`);
    if (found.evidence.verdict === 'good') return found.evidence.integrity;
    throw new Error(
      `the bucket already holds other bytes under ${key}: give --to an empty bucket, or a prefix of its own`,
    );
  }
}

/** The ETag of the object that was written; `undefined`: the key is taken. */
function etagOfPut({ status, headers }: S3Answer): string | undefined {
  if (status === 409 || status === 412) return undefined;
  // Without an ETag the object is inspected, as after a PUT of a client.
  if (status === 200) return findStrongEtag(headers);
  throw new AttemptFailed(`the object store answered ${status} to a copy`);
}

/** A body that is hashed while it is sent, and breaks off before its end if its digest is wrong. */
class CheckedSending {
  readonly sha256: string;
  readonly length: number;
  readonly #open: () => ReadableStream<Uint8Array>;
  /** all bytes were read, and they do not have the hash */
  isWrong = false;
  /** the error of reading the source */
  failure: unknown;

  constructor(open: () => ReadableStream<Uint8Array>, sha256: string, length: number) {
    this.#open = open;
    this.sha256 = sha256;
    this.length = length;
  }

  open(): ReadableStream<Uint8Array> {
    // The S3 client only knows that its attempt failed, and another attempt would not help.
    if (this.failure !== undefined) throw this.failure;
    if (this.isWrong) throw new StoreUnavailable('the bytes of the source are not what they must be');
    return toByteStream(this.#pieces());
  }

  /** Sends one piece later than it reads, so that the last piece leaves only after the whole digest proved right. */
  async *#pieces(): AsyncGenerator<Uint8Array> {
    const hasher = new Bun.CryptoHasher('sha256');
    let held: Uint8Array | undefined;
    try {
      for await (const piece of this.#open()) {
        if (piece.length === 0) continue;
        hasher.update(piece);
        if (held !== undefined) yield held;
        held = piece;
      }
    } catch (error) {
      this.failure = error;
      throw error;
    }
    if (hasher.digest('hex') !== this.sha256) {
      this.isWrong = true;
      throw new Error('the bytes do not have their digest');
    }
    if (held !== undefined) yield held;
  }
}
