/** The kernel's protocol for file systems in a process (FUSE, version 7), as far as reading needs it. */
import { BIG_NS_PER_S } from '@holdfast/protocol';

export const OPCODES = {
  lookup: 1,
  forget: 2,
  getattr: 3,
  readlink: 5,
  read: 15,
  statfs: 17,
  init: 26,
  opendir: 27,
  readdir: 28,
  releasedir: 29,
  interrupt: 36,
  destroy: 38,
  ioctl: 39,
  batchForget: 42,
  readdirplus: 44,
} as const;

/** Values of the system's headers, the same on every Linux. */
export const ERRNO = { noEntry: 2, interrupted: 4, io: 5, notATerminal: 25, notSupported: 38 } as const;

/** Limits on pages are the newest feature that is used. Kernels below `oldest` have other answers. */
const VERSION = { major: 7, minor: 31, oldest: 23 } as const;
/** Bytes of the structures of the protocol; an entry of a listing is aligned to 8. */
const BYTES = { header: 40, answerHeader: 16, attributes: 88, entry: 40 + 88, listed: 24 } as const;

/** Flags of the first answer that are wanted. */
const WANTED_FLAGS = [
  2 ** 0, // FUSE_ASYNC_READ
  2 ** 13, // FUSE_DO_READDIRPLUS
  2 ** 14, // FUSE_READDIRPLUS_AUTO
  2 ** 18, // FUSE_PARALLEL_DIROPS
  2 ** 22, // FUSE_MAX_PAGES
  2 ** 23, // FUSE_CACHE_SYMLINKS
].reduce((flags, flag) => flags | flag);

export interface FuseRequest {
  readonly opcode: number;
  readonly unique: bigint;
  /** what the request is about; 1 is the root */
  readonly node: number;
  readonly body: Buffer;
}

/** A node as a program sees it. */
export interface Attributes {
  readonly node: number;
  readonly bytes: number;
  /** with the type */
  readonly mode: number;
  readonly mtimeNs: bigint;
}

export interface NamedNode extends Attributes {
  readonly name: Uint8Array;
  /** the position of the entry after it */
  readonly next: number;
  /** the kernel may keep it for so long, s; 0: it asks for the attributes if somebody looks at it */
  readonly validS: number;
}

/** Throws RangeError for what no kernel sends. `message` is copied. */
export function parseRequest(message: Buffer): FuseRequest {
  if (message.length < BYTES.header || message.readUInt32LE(0) !== message.length) {
    throw new RangeError(`a request of ${message.length} bytes is none`);
  }
  return {
    opcode: message.readUInt32LE(4),
    unique: message.readBigUInt64LE(8),
    node: readNumber(message, 16),
    body: Buffer.from(message.subarray(BYTES.header)),
  };
}

export function formatAnswer(unique: bigint, errno: number, parts: readonly Uint8Array[]): Uint8Array[] {
  const header = Buffer.alloc(BYTES.answerHeader);
  const length = parts.reduce<number>((total, part) => total + part.length, BYTES.answerHeader);
  header.writeUInt32LE(length, 0);
  // Zero stays zero: there is no -0 in 32 bits.
  header.writeInt32LE(-errno | 0, 4);
  header.writeBigUInt64LE(unique, 8);
  return [header, ...parts];
}

/** Undefined for a kernel that is too old. */
export function answerInit(body: Buffer): Buffer | undefined {
  const [major, minor] = [body.readUInt32LE(0), body.readUInt32LE(4)];
  if (major < VERSION.major || (major === VERSION.major && minor < VERSION.oldest)) return undefined;
  const answer = Buffer.alloc(64);
  answer.writeUInt32LE(VERSION.major, 0);
  answer.writeUInt32LE(VERSION.minor, 4);
  // A newer kernel asks again with our version.
  if (major > VERSION.major) return answer;
  answer.writeUInt32LE(body.readUInt32LE(8), 8);
  answer.writeUInt32LE(WANTED_FLAGS & body.readUInt32LE(12), 12);
  // Reads that nobody waits for yet: at most 32 are asked for, and from 24 on the kernel slows down.
  answer.writeUInt16LE(32, 16);
  answer.writeUInt16LE(24, 18);
  // Bytes of a write. Nothing is written, but the kernel wants at least a page.
  answer.writeUInt32LE(4096, 20);
  answer.writeUInt32LE(1, 24);
  // Pages of a read.
  answer.writeUInt16LE(256, 28);
  return answer;
}

export function parseLookup(body: Buffer): Uint8Array {
  return body.subarray(0, body.indexOf(0));
}

export interface ReadRequest {
  readonly handle: number;
  readonly offset: number;
  readonly bytes: number;
}

/** The attributes of a file or a folder. */
export function parseRead(body: Buffer): ReadRequest {
  return { handle: readNumber(body, 0), offset: readNumber(body, 8), bytes: body.readUInt32LE(16) };
}

export function parseInterrupt(body: Buffer): bigint {
  return body.readBigUInt64LE(0);
}

export function parseRelease(body: Buffer): number {
  return readNumber(body, 0);
}

/** Undefined: nothing has the name, which the kernel may keep too. */
export function answerEntry(attributes: Attributes | undefined, validS: number): Buffer {
  const answer = Buffer.alloc(BYTES.entry);
  writeEntry(answer, 0, attributes, validS);
  return answer;
}

export function answerAttributes(attributes: Attributes, validS: number): Buffer {
  const answer = Buffer.alloc(16 + BYTES.attributes);
  writeNumber(answer, validS, 0);
  writeAttributes(answer, 16, attributes);
  return answer;
}

/** A folder that never changes is kept by the kernel. */
export function answerOpenFolder(handle: number, isKept: boolean): Buffer {
  const answer = Buffer.alloc(16);
  writeNumber(answer, handle, 0);
  // FOPEN_KEEP_CACHE and FOPEN_CACHE_DIR.
  answer.writeUInt32LE(isKept ? 2 | 8 : 0, 8);
  return answer;
}

export interface Totals {
  readonly bytes: number;
  readonly entryCount: number;
}

const STATFS_BLOCK_BYTES = 4096;

/** Nothing is free: it is read only. */
export function answerStatfs({ bytes, entryCount }: Totals, nameBytesMax: number): Buffer {
  const answer = Buffer.alloc(80);
  writeNumber(answer, Math.ceil(bytes / STATFS_BLOCK_BYTES), 0);
  writeNumber(answer, entryCount, 24);
  answer.writeUInt32LE(STATFS_BLOCK_BYTES, 40);
  answer.writeUInt32LE(nameBytesMax, 44);
  answer.writeUInt32LE(STATFS_BLOCK_BYTES, 48);
  return answer;
}

export class Listing {
  readonly #answer: Buffer;
  readonly #hasAttributes: boolean;
  #length = 0;

  constructor(bytes: number, hasAttributes: boolean) {
    this.#answer = Buffer.alloc(bytes);
    this.#hasAttributes = hasAttributes;
  }

  /** False: there is no room for it. */
  add(entry: NamedNode): boolean {
    const { name } = entry;
    const before = this.#hasAttributes ? BYTES.entry : 0;
    const bytes = before + Math.ceil((BYTES.listed + name.length) / 8) * 8;
    if (this.#length + bytes > this.#answer.length) return false;
    if (this.#hasAttributes && entry.validS > 0) writeEntry(this.#answer, this.#length, entry, entry.validS);
    const at = this.#length + before;
    writeNumber(this.#answer, entry.node, at);
    writeNumber(this.#answer, entry.next, at + 8);
    this.#answer.writeUInt32LE(name.length, at + 16);
    this.#answer.writeUInt32LE(entry.mode >>> 12, at + 20);
    this.#answer.set(name, at + BYTES.listed);
    this.#length += bytes;
    return true;
  }

  end(): Buffer {
    return this.#answer.subarray(0, this.#length);
  }
}

function writeEntry(answer: Buffer, at: number, attributes: Attributes | undefined, validS: number): void {
  writeNumber(answer, attributes?.node ?? 0, at);
  writeNumber(answer, validS, at + 16);
  writeNumber(answer, validS, at + 24);
  if (attributes !== undefined) writeAttributes(answer, at + 40, attributes);
}

const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];

function writeAttributes(answer: Buffer, at: number, { node, bytes, mode, mtimeNs }: Attributes): void {
  writeNumber(answer, node, at);
  writeNumber(answer, bytes, at + 8);
  writeNumber(answer, Math.ceil(bytes / 512), at + 16);
  const time = splitTime(mtimeNs);
  for (const field of [24, 32, 40]) answer.writeBigInt64LE(time.seconds, at + field);
  for (const field of [48, 52, 56]) answer.writeUInt32LE(time.ns, at + field);
  answer.writeUInt32LE(mode, at + 60);
  // A folder says 1 too, which tells nothing of how many folders are in it.
  answer.writeUInt32LE(1, at + 64);
  answer.writeUInt32LE(uid, at + 68);
  answer.writeUInt32LE(gid, at + 72);
  answer.writeUInt32LE(STATFS_BLOCK_BYTES, at + 80);
}

/** Most entries of a tree have one time. */
let split = { mtimeNs: 0n, seconds: 0n, ns: 0 };

function splitTime(mtimeNs: bigint): typeof split {
  if (split.mtimeNs !== mtimeNs) {
    const ns = ((mtimeNs % BIG_NS_PER_S) + BIG_NS_PER_S) % BIG_NS_PER_S;
    split = { mtimeNs, seconds: (mtimeNs - ns) / BIG_NS_PER_S, ns: Number(ns) };
  }
  return split;
}

function writeNumber(bytes: Buffer, value: number, at: number): void {
  bytes.writeUInt32LE(value % 2 ** 32, at);
  bytes.writeUInt32LE(Math.floor(value / 2 ** 32), at + 4);
}

function readNumber(bytes: Buffer, at: number): number {
  return bytes.readUInt32LE(at) + bytes.readUInt32LE(at + 4) * 2 ** 32;
}
