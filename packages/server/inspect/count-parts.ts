/** The entries of a walk, partitioned by hash so that each part fits into memory; many go to an unlinked file. */
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HASH_BYTES, type Hash } from '@holdfast/protocol';
import type { CountTaker, KeptCounts } from './walk-counts.ts';

const [ROW, EDGE, READY_EDGE, LOOSE, BALANCE] = [0, 1, 2, 3, 4] as const;
/** the count of numbers after kind and hash, by kind */
const NUMBERS = [3, 0, 0, 1, 1] as const;
const HEAD_BYTES = 1 + HASH_BYTES;

/** Most parts of a small Space are empty. */
const NO_BYTES = Buffer.alloc(0);

interface Part {
  entries: number;
  bytes: Buffer;
  length: number;
  readonly inFile: { readonly offset: number; readonly length: number }[];
}

export class CountParts implements CountTaker {
  readonly #memoryBytesMax: number;
  /** by the first byte of the hash */
  readonly #parts: Part[] = Array.from({ length: 256 }, () => ({
    ...{ entries: 0, bytes: NO_BYTES, length: 0, inFile: [] },
  }));
  #inMemory = 0;
  #file: FileHandle | undefined;
  #fileLength = 0;

  constructor(memoryBytesMax = 64 * 1024 * 1024) {
    this.#memoryBytesMax = memoryBytesMax;
  }

  addRow(hash: Hash, { childRefCount, rootRefCount, heldDomainCount }: KeptCounts): void {
    this.#add(ROW, hash, childRefCount, rootRefCount, heldDomainCount);
  }

  addEdge(hash: Hash, _parent: Hash, isParentReady: boolean): void {
    this.#add(isParentReady ? READY_EDGE : EDGE, hash);
  }

  addLoose(hash: Hash, count: number): void {
    this.#add(LOOSE, hash, count);
  }

  addBalance(hash: Hash, balance: number): void {
    this.#add(BALANCE, hash, balance);
  }

  #add(kind: number, hash: Hash, ...numbers: readonly number[]): void {
    const part = this.#parts[parseInt(hash.slice(0, 2), 16)] as Part;
    const size = HEAD_BYTES + numbers.length * 8;
    if (part.length + size > part.bytes.length) {
      part.bytes = Buffer.concat([part.bytes], Math.max(4 * 1024, 2 * part.bytes.length));
    }
    let at = part.bytes.writeUInt8(kind, part.length);
    at += part.bytes.write(hash, at, 'hex');
    for (const number of numbers) at = part.bytes.writeDoubleLE(number, at);
    part.length = at;
    part.entries += 1;
    this.#inMemory += size;
  }

  async settle(): Promise<void> {
    if (this.#inMemory <= this.#memoryBytesMax) return;
    this.#file ??= await openNameless();
    for (const part of this.#parts) {
      await writeWhole(this.#file, part.bytes.subarray(0, part.length), this.#fileLength);
      part.inFile.push({ offset: this.#fileLength, length: part.length });
      this.#fileLength += part.length;
      part.length = 0;
    }
    this.#inMemory = 0;
  }

  get sizes(): readonly number[] {
    return this.#parts.map(({ entries }) => entries);
  }

  /** Passes the entries of the part whose hash satisfies `isMine` to `taker`. */
  async tell(index: number, taker: CountTaker, isMine: (hash: Hash) => boolean): Promise<void> {
    const part = this.#parts[index] as Part;
    for (const { offset, length } of part.inFile) {
      tellAll(await readWhole(this.#file as FileHandle, offset, length), taker, isMine);
    }
    tellAll(part.bytes.subarray(0, part.length), taker, isMine);
    await taker.settle();
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }
}

function tellAll(bytes: Buffer, taker: CountTaker, isMine: (hash: Hash) => boolean): void {
  for (let at = 0; at < bytes.length; ) {
    const kind = bytes[at] as keyof typeof NUMBERS & number;
    const hash = bytes.toString('hex', at + 1, at + HEAD_BYTES);
    const number = (place: number): number => bytes.readDoubleLE(start + place * 8);
    const start = at + HEAD_BYTES;
    at = start + (NUMBERS[kind] as number) * 8;
    if (!isMine(hash)) continue;
    if (kind === ROW) {
      const [childRefCount, rootRefCount, heldDomainCount] = [number(0), number(1), number(2)];
      taker.addRow(hash, { childRefCount, rootRefCount, heldDomainCount });
    } else if (kind === LOOSE) taker.addLoose(hash, number(0));
    else if (kind === BALANCE) taker.addBalance(hash, number(0));
    // A screen ignores the parent.
    else taker.addEdge(hash, hash, kind === READY_EDGE);
  }
}

/** A nearly full disk may write only a part. */
async function writeWhole(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    at += (await file.write(bytes, at, bytes.length - at, position + at)).bytesWritten;
  }
}

async function readWhole(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const { bytesRead } = await file.read(bytes, at, length - at, position + at);
    if (bytesRead === 0) throw new Error('the file of what was counted was cut off');
    at += bytesRead;
  }
  return bytes;
}

async function openNameless(): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-check-'));
  try {
    return await open(join(folder, 'counts'), 'wx+', 0o600);
  } finally {
    await rm(folder, { recursive: true });
  }
}
