/**
 * engine/transfer-ports.ts ContentIntake on S3: one conditional PUT an object. The node's hash is the digest of its canonical bytes,
 * so it is signed with the request and the store itself refuses other bytes; besides, the last bytes are sent only once all of
 * them have the hash, so that wrong ones never become an object.
 */
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { toByteStream } from '../../core/byte-stream.ts';
import { type StoredObject, StoreUnavailable } from '../../core/ports.ts';
import { spaceKeyOf } from '../../core/space-key.ts';
import type { ContentIntake, IntakeTarget, TakenContent } from '../transfer-ports.ts';
import type { S3ContentStoreParts } from './content-store.ts';
import { etagToIntegrity, findEtagOf, findStrongEtag } from './etag.ts';
import { AttemptFailed } from './failure.ts';
import { inspectObject } from './object-inspection.ts';
import type { S3Answer, S3Call } from './s3-client.ts';

/** Beside the usual time for the head of an answer: what sending takes over a slow line. */
const BYTES_PER_MS_MIN = 256;

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
    const key = this.#keyOf(target);
    const call: S3Call = {
      method: 'PUT',
      key,
      headers: { 'content-type': NODE_MEDIA_TYPE, 'if-none-match': '*' },
      body: sending,
      doing: 'copying content',
      headMsMax: limits.headMsMax + canonicalSize / BYTES_PER_MS_MIN,
    };
    let etag: string | undefined;
    try {
      etag = await client.send(call, async (answer) => etagOfPut(answer));
    } catch (error) {
      // What was wrong with the source goes before what the store made of a body that broke off.
      if (sending.failure !== undefined) throw sending.failure;
      if (sending.isWrong) return { isRight: false };
      throw error;
    }
    const integrity = etag === undefined ? await this.#recognise(target, key) : etagToIntegrity(etag);
    return { isRight: true, integrity, inlineBytes: undefined, release: async () => undefined };
  }

  async isThere(object: StoredObject): Promise<boolean> {
    const { client, marker } = this.#parts;
    const call = { method: 'HEAD', key: this.#keyOf(object), doing: 'looking for an object' } as const;
    const isThere = await client.send(call, async ({ status, headers }) => {
      if (status === 404) return false;
      if (status !== 200) throw new AttemptFailed(`the object store answered ${status} about an object`);
      const hasLength = headers.get('content-length') === String(object.canonicalSize);
      return hasLength && findStrongEtag(headers) === findEtagOf(object.integrity);
    });
    if (!isThere) await marker.assertRecentlyHealthy();
    return isThere;
  }

  /** The key is taken: by the PUT of an earlier run, if it holds these very bytes. */
  async #recognise({ hash, canonicalSize }: IntakeTarget, key: string): Promise<Uint8Array> {
    const found = await inspectObject(this.#parts, key, hash, { nodeBytesMax: canonicalSize });
    // The store was busy with another attempt at the same key: the next one will tell.
    if (!found.found) throw new StoreUnavailable(`the object store is still taking the object ${key}`);
    if (found.evidence.verdict === 'good') return found.evidence.integrity;
    throw new Error(
      `the bucket already holds other bytes under ${key}: give --to an empty bucket, or a prefix of its own`,
    );
  }

  #keyOf({ space, generation }: Pick<IntakeTarget, 'space' | 'generation'>): string {
    return this.#parts.keys.keyOf({ spaceKey: spaceKeyOf(space), generation });
  }
}

/** The ETag of what was written now; `undefined`: the key is taken. */
function etagOfPut({ status, headers }: S3Answer): string | undefined {
  if (status === 409 || status === 412) return undefined;
  // Without one the object is looked at, as after any PUT of a client.
  if (status === 200) return findStrongEtag(headers);
  throw new AttemptFailed(`the object store answered ${status} to a copy`);
}

/** A body that is hashed while it is sent, and breaks off before its end if it is not what it must be. */
class CheckedSending {
  readonly sha256: string;
  readonly length: number;
  readonly #open: () => ReadableStream<Uint8Array>;
  /** all bytes were read, and they do not have the hash */
  isWrong = false;
  /** what reading the source failed with */
  failure: unknown;

  constructor(open: () => ReadableStream<Uint8Array>, sha256: string, length: number) {
    this.#open = open;
    this.sha256 = sha256;
    this.length = length;
  }

  open(): ReadableStream<Uint8Array> {
    // The client only knows that its attempt failed; trying again would not help.
    if (this.failure !== undefined) throw this.failure;
    if (this.isWrong) throw new StoreUnavailable('the bytes of the source are not what they must be');
    return toByteStream(this.#pieces());
  }

  /** One piece behind what is read, so that the last one leaves only when all is known to be right. */
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
