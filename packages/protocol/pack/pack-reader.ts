/** Splits a pack that arrives in chunks of any size into records, and finds where its framing breaks (docs/bulk.md, Pack format). */
import type { Hash } from '../hash.ts';
import { PACK_BYTES_MAX, PACK_REFS_MAX, type RecordCodec } from '../limits.ts';
import {
  decodeRecordHeader,
  findPackHeaderFault,
  findRecordCountFault,
  findRecordHeaderFault,
  PACK_HEADER_BYTES,
  RECORD_HEADER_BYTES,
  type RecordHeader,
} from './pack-format.ts';

export interface PackRecord extends RecordHeader {
  /** from 0, in the order of the pack */
  readonly index: number;
  /** where the record begins in the pack; its stored bytes begin RECORD_HEADER_BYTES later */
  readonly byte: number;
  /** A view of the chunk if it holds all of them, else a copy. The reader never writes to it again. */
  readonly stored: Uint8Array;
}

/** A fault that ends a pack early. Nothing from `byte` on is judged; all records before it are valid. */
export interface PackFault {
  /** where the record begins that breaks a rule; 0 for the pack's header; PACK_BYTES_MAX for a pack that is too long */
  readonly byte: number;
  readonly message: string;
}

type Part = 'pack header' | 'record header' | 'stored bytes';

/**
 * Feed `push` with the pack's chunks and use each record it yields, then call `end`; `fault` then says whether and where the
 * framing broke. Beside the hashes it holds at most one record. If a record has several faults, the first of these counts: record
 * count, codec, reserved bytes, canonical length, stored length, a repeated hash, the end of the pack, refs.
 */
export class PackReader {
  readonly #totalBytes: number | undefined;
  readonly #hashes = new Set<Hash>();
  #fault: PackFault | undefined;
  #part: Part = 'pack header';
  #wantedLength = PACK_HEADER_BYTES;
  /** The part's bytes that came with earlier chunks; undefined when there are none. */
  #kept: Uint8Array | undefined;
  #keptLength = 0;
  /** Bytes of all parts that were taken whole. */
  #position = 0;
  #recordByte = 0;
  #header: RecordHeader | undefined;
  #refCount = 0;

  /** `totalBytes`, where it is known beforehand, finds a record that passes the end before its bytes have come. */
  constructor(totalBytes?: number) {
    this.#totalBytes = totalBytes;
    if (totalBytes === undefined) return;
    if (totalBytes > PACK_BYTES_MAX) this.#break(tooLong(), PACK_BYTES_MAX);
    else if (totalBytes < PACK_HEADER_BYTES) this.#break('the pack is cut off inside its header');
  }

  get fault(): PackFault | undefined {
    return this.#fault;
  }

  /** Yields the records that are whole with this chunk. Take them all before the next call, unless you give up the pack. */
  *push(chunk: Uint8Array): Generator<PackRecord, void, undefined> {
    let taken = 0;
    while (this.#fault === undefined) {
      const end = taken + this.#wantedLength - this.#keptLength;
      if (end > chunk.length) {
        this.#keep(chunk.subarray(taken));
        return;
      }
      const part = this.#complete(chunk.subarray(taken, end));
      taken = end;
      const record = this.#accept(part);
      if (record !== undefined) yield record;
    }
  }

  /** No more bytes will come. */
  end(): void {
    if (this.#fault !== undefined) return;
    if (this.#part === 'record header' && this.#keptLength === 0) return;
    this.#break(
      this.#part === 'pack header' ? 'the pack is cut off inside its header' : this.#cutOff(this.#part),
    );
  }

  /**
   * Adds the refs of a record that was judged good, in the order of the pack. False when they pass what a pack may hold: the pack
   * then ends before this record, which must not count.
   */
  countRefs({ index, byte }: PackRecord, refCount: number): boolean {
    this.#refCount += refCount;
    if (this.#refCount <= PACK_REFS_MAX) return true;
    this.#fault = {
      byte,
      message: `record ${index + 1}: with it the pack has more than ${PACK_REFS_MAX} refs`,
    };
    return false;
  }

  #keep(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#kept ??= new Uint8Array(this.#wantedLength);
    this.#kept.set(bytes, this.#keptLength);
    this.#keptLength += bytes.length;
    if (this.#part === 'record header') this.#checkMayBegin();
  }

  #complete(bytes: Uint8Array): Uint8Array {
    const kept = this.#kept;
    this.#position += this.#wantedLength;
    if (kept === undefined) return bytes;
    kept.set(bytes, this.#keptLength);
    this.#kept = undefined;
    this.#keptLength = 0;
    return kept;
  }

  #accept(part: Uint8Array): PackRecord | undefined {
    if (this.#part === 'pack header') {
      const fault = findPackHeaderFault(part);
      if (fault === undefined) this.#awaitRecord();
      else this.#break(fault);
      return undefined;
    }
    if (this.#part === 'record header') {
      this.#acceptHeader(part);
      return undefined;
    }
    const header = this.#header as RecordHeader;
    const record = { ...header, index: this.#hashes.size - 1, byte: this.#recordByte, stored: part };
    this.#awaitRecord();
    return record;
  }

  #acceptHeader(part: Uint8Array): void {
    if (!this.#checkMayBegin()) return;
    const header = decodeRecordHeader(part);
    const end = this.#position + header.storedLength;
    const fault = findRecordHeaderFault(header) ?? this.#findFaultInPack(header.hash, end);
    if (fault !== undefined) this.#break(this.#about(fault));
    else if (end > PACK_BYTES_MAX) this.#break(tooLong(), PACK_BYTES_MAX);
    if (this.#fault !== undefined) return;
    this.#hashes.add(header.hash);
    const { hash, storedLength, canonicalLength } = header;
    this.#header = { hash, codec: header.codec as RecordCodec, storedLength, canonicalLength };
    this.#part = 'stored bytes';
    this.#wantedLength = header.storedLength;
  }

  /** A fault of a record that only the pack around it makes one. */
  #findFaultInPack(hash: Hash, end: number): string | undefined {
    if (this.#hashes.has(hash)) return `the hash ${hash} stands in the pack before`;
    if (this.#totalBytes === undefined || end <= this.#totalBytes) return undefined;
    return `its stored bytes end at byte ${end}, past the end of the pack at byte ${this.#totalBytes}`;
  }

  #awaitRecord(): void {
    this.#part = 'record header';
    this.#wantedLength = RECORD_HEADER_BYTES;
    this.#recordByte = this.#position;
    if (this.#totalBytes !== undefined && this.#totalBytes > this.#position) this.#checkMayBegin();
  }

  /** Bytes follow here, or are said to: whether they can be a record at all. */
  #checkMayBegin(): boolean {
    const fault = findRecordCountFault(this.#hashes.size);
    if (fault !== undefined) this.#break(this.#about(fault));
    else if (this.#totalBytes !== undefined && this.#recordByte + RECORD_HEADER_BYTES > this.#totalBytes) {
      this.#break(this.#cutOff('record header'));
    }
    return this.#fault === undefined;
  }

  #cutOff(part: Part): string {
    if (part === 'stored bytes') return `record ${this.#hashes.size} is cut off inside its stored bytes`;
    return this.#about('it is cut off inside its header');
  }

  /** About the record that begins at #recordByte and is not taken yet. */
  #about(reason: string): string {
    return `record ${this.#hashes.size + 1}: ${reason}`;
  }

  #break(message: string, byte = this.#recordByte): void {
    this.#fault = { byte, message };
  }
}

function tooLong(): string {
  return `the pack is over ${PACK_BYTES_MAX} bytes`;
}
