/**
 * core/pack-ports.ts PackStore on S3. A pack is streamed once while it is judged, and the ETag of that answer becomes part of the
 * integrity record of each of its records. A record is read by a range of the object that still has that ETag, and proven by its
 * own checksum.
 */
import { groupsOf, PACK_MEDIA_TYPE } from '@holdfast/protocol';
import { toByteStream } from '../../core/byte-stream.ts';
import type { Generation, Space } from '../../core/model.ts';
import type { PackedRecord, PackObject, PackStore, WrittenPack } from '../../core/pack-ports.ts';
import { ContentDamaged, StoreUnavailable } from '../../core/store-failure.ts';
import { askCollector } from '../../runtime/release-bytes.ts';
import { isRecordIntact, makeRecordIntegrity, RECORD_INTEGRITY_BYTES } from '../packed-object.ts';
import type { S3ContentStoreParts } from './content-store-parts.ts';
import { etagToIntegrity, findEtagOf, findStrongEtag } from './etag.ts';
import { AttemptFailed } from './failure.ts';
import { openObject } from './object-inspection.ts';
import { readProven } from './object-proof.ts';
import { gatherRange, type RecordedObject, readRange } from './object-range.ts';
import type { S3Answer, S3Call } from './s3-client.ts';

type PackParts = Pick<S3ContentStoreParts, 'client' | 'keys' | 'marker' | 'limits'>;

/** Records of one object, near each other. */
interface RecordRange {
  readonly recorded: RecordedObject;
  readonly start: number;
  end: number;
  readonly records: { readonly record: PackedRecord; readonly index: number }[];
}

export class S3PackStore implements PackStore {
  readonly #parts: PackParts;

  constructor(parts: PackParts) {
    this.#parts = parts;
  }

  async inspect<T>(
    space: Space,
    generation: Generation,
    judge: (object: PackObject) => Promise<T>,
  ): Promise<T | undefined> {
    const { client, marker } = this.#parts;
    const key = this.#parts.keys.keyIn(space, generation);
    const found = await client.send(
      { method: 'GET', key, space, doing: 'validating a pack' },
      async (answer) => {
        const opened = openObject(answer);
        return opened && { judged: await judge(packObject(opened)) };
      },
    );
    // Absence counts only in our own bucket.
    if (found === undefined) await marker.assertRecentlyHealthy();
    return found?.judged;
  }

  async readRecord(space: Space, record: PackedRecord): Promise<Uint8Array> {
    const recorded = this.#recordedObject(space, record);
    const range = rangeOf(record);
    // Bytes may also be damaged on the way: only a checksum that is wrong twice proves damage.
    for (let look = 1; look <= 2; look += 1) {
      const stored = await readProven(this.#parts, recorded, () =>
        gatherRange(this.#parts.client, recorded, range),
      );
      if (isRecordIntact(stored, checksumOf(record.integrity))) return stored;
    }
    const { pack, offset } = record.place;
    throw new ContentDamaged(`the record at byte ${offset} of pack ${pack} does not match its checksum`);
  }

  async readRecords(space: Space, records: readonly PackedRecord[]): Promise<readonly Uint8Array[]> {
    const read: Uint8Array[] = new Array(records.length);
    const ranges = this.#rangesOf(space, records);
    // One caller reads four ranges at a time.
    for (const some of groupsOf(ranges, 4)) {
      await Promise.all(some.map((range) => this.#readInto(read, space, range)));
    }
    return read;
  }

  async write(space: Space, generation: Generation, pieces: AsyncIterable<Uint8Array>): Promise<WrittenPack> {
    const { client, limits } = this.#parts;
    const key = this.#parts.keys.keyIn(space, generation);
    const sending = await gather(pieces);
    const call: S3Call = {
      method: 'PUT',
      ...{ key, space, doing: 'writing a pack', body: sending },
      headers: { 'content-type': PACK_MEDIA_TYPE, 'if-none-match': '*' },
      // The store may take 256 bytes a millisecond.
      headMsMax: limits.headMsMax + sending.length / 256,
    };
    const written = await client.send(call, async (answer) => etagOfPut(answer));
    const etag = written ?? (await this.#recognise(space, generation, sending));
    return {
      bytes: sending.length,
      integrityFrom: (integrity) => withEtag(checksumOf(integrity), etag),
      integrityOf: integrityBy(etag),
    };
  }

  /** Names the object that holds the record, as it is now, by its ETag. Same errors as `readRecord`. */
  async getVersion(space: Space, record: PackedRecord): Promise<string> {
    const recorded = this.#recordedObject(space, record);
    const { offset } = record.place;
    const range = { start: offset, end: offset + 1 };
    await readProven(this.#parts, recorded, () =>
      readRange(this.#parts.client, recorded, range, (body) => body.readAll(1)),
    );
    return `${recorded.etag} ${offset}`;
  }

  #rangesOf(space: Space, records: readonly PackedRecord[]): RecordRange[] {
    const ranges: RecordRange[] = [];
    for (const [index, record] of records.entries()) {
      const recorded = this.#recordedObject(space, record);
      const { start, end } = rangeOf(record);
      const last = ranges.at(-1);
      const isNear =
        last !== undefined &&
        last.recorded.key === recorded.key &&
        last.recorded.etag === recorded.etag &&
        start >= last.end &&
        // Records with fewer bytes between them are read in one range: to skip those would cost a request.
        start - last.end <= 16 * 1024 &&
        end - last.start <= 2 * 1024 * 1024;
      if (isNear) {
        last.end = end;
        last.records.push({ record, index });
      } else ranges.push({ recorded, start, end, records: [{ record, index }] });
    }
    return ranges;
  }

  async #readInto(read: Uint8Array[], space: Space, range: RecordRange): Promise<void> {
    const { start, end, records } = range;
    const recorded = { ...range.recorded, bytesMin: end };
    const bytes = await readProven(this.#parts, recorded, () =>
      gatherRange(this.#parts.client, recorded, { start, end }),
    );
    for (const { record, index } of records) {
      const { offset, storedLength } = record.place;
      const stored = bytes.subarray(offset - start, offset - start + storedLength);
      const isIntact = isRecordIntact(stored, checksumOf(record.integrity));
      read[index] = isIntact ? stored : await this.readRecord(space, record);
    }
  }

  /** The ETag of what an attempt whose answer was lost has written, if it is exactly these bytes. */
  async #recognise(space: Space, generation: Generation, sent: GatheredPack): Promise<string> {
    const key = this.#parts.keys.keyIn(space, generation);
    const call = { method: 'GET', key, space, doing: 'looking at a pack' } as const;
    const found = await this.#parts.client.send(call, async (answer) => {
      const opened = openObject(answer);
      if (opened === undefined) return undefined;
      const hasher = new Bun.CryptoHasher('sha256');
      for await (const piece of opened.read()) hasher.update(piece);
      return { etag: opened.etag, sha256: hasher.digest('hex') };
    });
    if (found?.sha256 === sent.sha256) return found.etag;
    throw new StoreUnavailable(
      found === undefined
        ? `the object store is still taking the pack ${generation}`
        : `the object store holds other bytes under the key of pack ${generation}, which nobody else writes`,
    );
  }

  #recordedObject(space: Space, { place, integrity }: PackedRecord): RecordedObject {
    const etag = findEtagOf(integrity.subarray(RECORD_INTEGRITY_BYTES));
    if (etag === undefined) {
      throw new ContentDamaged(`the integrity record of a record of pack ${place.pack} names no ETag`);
    }
    const { pack: generation, offset, storedLength } = place;
    const bytesMin = offset + storedLength;
    return {
      space,
      generation,
      key: this.#parts.keys.keyIn(space, generation),
      etag,
      bytesMin,
      bytesMax: Number.MAX_SAFE_INTEGER,
    };
  }
}

function packObject({ bytes, etag, read }: NonNullable<ReturnType<typeof openObject>>): PackObject {
  return { bytes, read, integrityOf: integrityBy(etag) };
}

/** The checksum of the stored bytes, and behind it the ETag of the object. */
function integrityBy(etag: string): (stored: Uint8Array) => Uint8Array {
  return (stored) => withEtag(makeRecordIntegrity(stored), etag);
}

function withEtag(checksum: Uint8Array, etag: string): Uint8Array {
  return new Uint8Array(Buffer.concat([checksum, etagToIntegrity(etag)]));
}

const checksumOf = (integrity: Uint8Array): Uint8Array => integrity.subarray(0, RECORD_INTEGRITY_BYTES);

const rangeOf = ({ place: { offset, storedLength } }: PackedRecord) => ({
  start: offset,
  end: offset + storedLength,
});

/** The ETag of the object that was written; `undefined`: the key is taken, or the store does not say. */
function etagOfPut({ status, headers }: S3Answer): string | undefined {
  if (status === 409 || status === 412) return undefined;
  if (status === 200) return findStrongEtag(headers);
  throw new AttemptFailed(`the object store answered ${status} to a pack`);
}

/** All bytes of a pack, whose digest must be known before the first is sent. */
interface GatheredPack {
  readonly sha256: string;
  readonly length: number;
  open(): ReadableStream<Uint8Array>;
}

async function gather(pieces: AsyncIterable<Uint8Array>): Promise<GatheredPack> {
  const gathered: Uint8Array[] = [];
  const hasher = new Bun.CryptoHasher('sha256');
  let length = 0;
  for await (const piece of pieces) {
    hasher.update(piece);
    gathered.push(new Uint8Array(piece));
    length += piece.length;
    askCollector(piece.length);
  }
  const send = async function* () {
    yield* gathered;
  };
  return { sha256: hasher.digest('hex'), length, open: () => toByteStream(send()) };
}
