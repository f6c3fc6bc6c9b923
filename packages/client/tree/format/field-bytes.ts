/** Writing and strictly reading the little-endian fields of tree nodes. */
import { INTEGER_MAX } from '@holdfast/protocol';
import { TreeFormatError } from './tree-format.ts';

/** Directories and indexes begin with it: version, level (0 in a directory), two reserved zero bytes. */
export const TREE_HEADER_BYTES = 4;
const TREE_FORMAT_VERSION = 1;

/** Fields one after another into memory of exactly the right length. */
export class FieldWriter {
  readonly bytes: Uint8Array;
  readonly #view: DataView;
  #offset = 0;

  constructor(length: number) {
    this.bytes = new Uint8Array(length);
    this.#view = new DataView(this.bytes.buffer);
  }

  header(level: number): void {
    this.u8(TREE_FORMAT_VERSION);
    this.u8(level);
    this.u16(0);
  }

  u8(value: number): void {
    this.bytes[this.#offset] = value;
    this.#offset += 1;
  }

  u16(value: number): void {
    this.#view.setUint16(this.#offset, value, true);
    this.#offset += 2;
  }

  /** `value` is 0 to 2^53 - 1. */
  u64(value: number): void {
    this.#view.setUint32(this.#offset, value % 2 ** 32, true);
    this.#view.setUint32(this.#offset + 4, Math.floor(value / 2 ** 32), true);
    this.#offset += 8;
  }

  i64(value: bigint): void {
    this.#view.setBigInt64(this.#offset, value, true);
    this.#offset += 8;
  }

  raw(value: Uint8Array): void {
    this.bytes.set(value, this.#offset);
    this.#offset += value.length;
  }
}

/** Fields one after another; every read checks that they are there. Throws TreeFormatError. */
export class FieldReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #offset = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** The level that the header says. */
  header(): number {
    const version = this.u8('version');
    if (version !== TREE_FORMAT_VERSION) {
      throw new TreeFormatError(`version ${version} of the tree format is not known; update the reader`);
    }
    const level = this.u8('level');
    const reserved = this.u16('reserved field');
    if (reserved !== 0) throw new TreeFormatError(`the reserved field is ${reserved}; it must be 0`);
    return level;
  }

  u8(field: string): number {
    return this.#bytes[this.#take(1, field)] as number;
  }

  u16(field: string): number {
    return this.#view.getUint16(this.#take(2, field), true);
  }

  /** Exact; above 2^53 - 1 is refused. */
  u64(field: string): number {
    const at = this.#take(8, field);
    const value = this.#view.getUint32(at, true) + this.#view.getUint32(at + 4, true) * 2 ** 32;
    if (value > INTEGER_MAX) throw new TreeFormatError(`the ${field} is more than ${INTEGER_MAX}`);
    return value;
  }

  i64(field: string): bigint {
    return this.#view.getBigInt64(this.#take(8, field), true);
  }

  /** A view of the input. */
  raw(length: number, field: string): Uint8Array {
    const at = this.#take(length, field);
    return this.#bytes.subarray(at, at + length);
  }

  end(): void {
    const left = this.#bytes.length - this.#offset;
    if (left !== 0) throw new TreeFormatError(`${left} bytes trail the last field`);
  }

  #take(length: number, field: string): number {
    const at = this.#offset;
    if (at + length > this.#bytes.length) {
      throw new TreeFormatError(`the content ends at byte ${this.#bytes.length}, inside a ${field}`);
    }
    this.#offset = at + length;
    return at;
  }
}

/** Throws TreeFormatError unless `value` fits a u64 field. */
export function checkU64(value: number, field: string): void {
  if (Number.isSafeInteger(value) && value >= 0) return;
  throw new TreeFormatError(`the ${field} is not an integer from 0 to ${INTEGER_MAX}`);
}
