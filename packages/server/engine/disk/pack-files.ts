/** PackStore on the content folder. A pack is opened for each read, or for the reads of one turn, so that a lost file is noticed. */
import type { Generation, Space } from '../../core/model.ts';
import type { PackedRecord, PackObject, PackStore, WrittenPack } from '../../core/pack-ports.ts';
import { ContentDamaged, ContentLost } from '../../core/store-failure.ts';
import { releaseBytes } from '../../runtime/release-bytes.ts';
import { guard } from '../local-failure.ts';
import { isRecordIntact, makeRecordIntegrity } from '../packed-object.ts';
import type { OpenFile } from './files.ts';
import type { StagedFiles } from './staged-files.ts';
import type { TurnFiles } from './turn-files.ts';

interface PackFilesOptions {
  readonly now: TurnFiles;
  readonly staged: StagedFiles;
  /** `undefined` only when a healthy store has no such object */
  readonly find: (generation: Generation) => Promise<OpenFile | undefined>;
}

/** Records that one read gets. */
interface Span {
  readonly start: number;
  readonly end: number;
  readonly records: readonly PackedRecord[];
}

export class PackFiles implements PackStore {
  readonly #options: PackFilesOptions;
  /** for records that are read at once; not handed out yet */
  #memory = new Uint8Array(0);

  constructor(options: PackFilesOptions) {
    this.#options = options;
  }

  inspect<T>(
    _space: Space,
    generation: Generation,
    judge: (object: PackObject) => Promise<T>,
  ): Promise<T | undefined> {
    return guard('reading a pack', async () => {
      const file = await this.#options.find(generation);
      if (file === undefined) return undefined;
      try {
        const bytes = file.sizeNow();
        return await judge({ bytes, integrityOf: makeRecordIntegrity, read: () => readAll(file, bytes) });
      } finally {
        await file.close();
      }
    });
  }

  /** The proven stored bytes, without a turn of the event loop. `undefined`: `readRecord` has to tell what is wrong. */
  findRecordNow({ place, integrity }: PackedRecord): Uint8Array | undefined {
    const { pack, offset, storedLength } = place;
    const stored = this.#takeMemory(storedLength);
    try {
      const length = this.#options.now.read(pack, stored, offset);
      return length === storedLength && isRecordIntact(stored, integrity) ? stored : undefined;
    } catch {
      return undefined;
    }
  }

  /** Many records share one allocation, because each would cost as much as the read. It is not cleared: bytes are proven before use. */
  #takeMemory(bytes: number): Uint8Array {
    if (bytes > this.#memory.length)
      this.#memory = new Uint8Array(Buffer.allocUnsafeSlow(Math.max(bytes, 128 * 1024)).buffer);
    const taken = this.#memory.subarray(0, bytes);
    this.#memory = this.#memory.subarray(bytes);
    return taken;
  }

  async readRecord(space: Space, record: PackedRecord): Promise<Uint8Array> {
    const [stored] = await this.readRecords(space, [record]);
    return stored as Uint8Array;
  }

  readRecords(_space: Space, records: readonly PackedRecord[]): Promise<readonly Uint8Array[]> {
    return guard('reading records of a pack', async () => {
      const [first] = records;
      if (first === undefined) return [];
      const { pack } = first.place;
      const file = await this.#options.find(pack);
      if (file === undefined) throw new ContentLost(`the pack of generation ${pack} is not there`);
      try {
        const found: Uint8Array[] = [];
        for (const span of spansOf(records)) found.push(...(await readSpan(file, span)));
        return found;
      } finally {
        file.closeNow();
      }
    });
  }

  /** The staged name is gone when this resolves: a pack that no row names is a stray. */
  write(_space: Space, generation: Generation, pieces: AsyncIterable<Uint8Array>): Promise<WrittenPack> {
    return guard('writing a pack', async () => {
      const file = await this.#options.staged.create(generation);
      let bytes = 0;
      try {
        for await (const piece of pieces) {
          await file.write(piece, bytes);
          bytes += piece.length;
        }
        if (!(await file.seal())) throw new Error(`there is a pack of generation ${generation} already`);
      } finally {
        await file.drop();
      }
      return { bytes, integrityFrom: (integrity) => integrity, integrityOf: makeRecordIntegrity };
    });
  }
}

/** All pieces are in the same memory, one after the other. */
async function* readAll(file: OpenFile, bytes: number): AsyncGenerator<Uint8Array> {
  const memory = new Uint8Array(Math.min(1024 * 1024, bytes));
  try {
    for (let position = 0; position < bytes; ) {
      const piece = memory.subarray(0, bytes - position);
      const length = await file.read(piece, position);
      if (length < piece.length) throw new Error('a pack has become shorter while it was read');
      position += length;
      yield piece;
    }
  } finally {
    releaseBytes(memory);
  }
}

/** Near records go into one span. */
function* spansOf(records: readonly PackedRecord[]): Generator<Span> {
  let near: PackedRecord[] = [];
  let start = 0;
  let end = 0;
  for (const record of records) {
    const { offset, storedLength } = record.place;
    // Reading this many unneeded bytes costs less than another read.
    const isNear = offset >= end && offset <= end + 32 * 1024;
    // One read of several records holds at most this much in memory, gaps included.
    if (near.length > 0 && !(isNear && offset + storedLength - start <= 4 * 1024 * 1024)) {
      yield { start, end, records: near };
      near = [];
    }
    if (near.length === 0) start = offset;
    end = offset + storedLength;
    near.push(record);
  }
  if (near.length > 0) yield { start, end, records: near };
}

async function readSpan(file: OpenFile, { start, end, records }: Span): Promise<Uint8Array[]> {
  // The memory is not cleared first, because every byte that is used of it is read and proven before.
  const bytes = new Uint8Array(Buffer.allocUnsafeSlow(end - start).buffer);
  const length = await file.read(bytes, start);
  const found: Uint8Array[] = [];
  for (const { place, integrity } of records) {
    const at = place.offset - start;
    const stored = bytes.subarray(at, at + place.storedLength);
    const isRead = at + stored.length <= length;
    if (!isRead || !isRecordIntact(stored, integrity)) await readAgain(file, { place, integrity }, stored);
    found.push(stored);
  }
  return found;
}

/** Once more before a mismatch counts as proof: bad memory or a bad cable may have damaged only the first read. */
async function readAgain(file: OpenFile, record: PackedRecord, stored: Uint8Array): Promise<void> {
  const { pack, offset } = record.place;
  const length = await file.read(stored, offset);
  if (length === stored.length && isRecordIntact(stored, record.integrity)) return;
  throw new ContentDamaged(
    length < stored.length
      ? `the pack of generation ${pack} ends within the record at byte ${offset}`
      : `the record at byte ${offset} of the pack of generation ${pack} does not match its checksum`,
  );
}
