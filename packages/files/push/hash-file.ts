/**
 * Hashing one file as the tree format stores it: small files at once and in one read, larger ones in pieces while the next
 * is read and earlier ones are taken. A file that changes meanwhile is noticed and read again.
 */
import { closeSync, fstatSync, read, readSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import {
  type BuiltFile,
  CHUNK_BYTES_MAX,
  CHUNK_BYTES_MIN,
  CHUNK_CONTENT_TYPE,
  type EarlyNodes,
  FILE_CONTENT_TYPE,
  FileIndexBuilder,
  findChunkEnd,
  type TreeNode,
} from '@holdfast/client/push';
import { encodeNode, encodeNodeHeader, type Hash, writeNodeSize } from '@holdfast/protocol';
import type { FileStats } from '../entry-stats.ts';
import { lookAtIn } from '../folder-calls.ts';
import { digestAtOnce, digestWhole } from '../node-digest.ts';
import { chunkMemory } from './buffer-pool.ts';
import { type Fingerprint, isSameFingerprint } from './stat-pages.ts';

const readAt = promisify(read);
/** Read at once. */
const READ_BYTES = 2 * 1024 * 1024;
const ATTEMPTS_MAX = 4;
/** The attempt that comes before the first. */
const UNCOUNTED = -1;
const RETRY_DELAYS_MS: readonly number[] = [20, 200, 1_000];

/** A file that was read, and what it was then. One that only grew meanwhile has more bytes than were read. */
export interface HashedFile extends BuiltFile {
  readonly stats: FileStats;
  /** index nodes of a larger file, none of a small one */
  readonly indexNodes: readonly IndexNode[];
}

interface IndexNode {
  readonly hash: Hash;
  /** canonical */
  readonly bytes: Uint8Array;
}

/** The file was written to each time it was read, has no length, or was replaced. `message` says which. */
export class FileBusyError extends Error {
  override readonly name = 'FileBusyError';
}

export function fingerprintOf({ size, mtimeMs, ctimeMs, ino }: FileStats): Fingerprint {
  return { size, mtimeMs, ctimeMs, inode: ino };
}

/** Takes the nodes that were read, and looks at their bytes no longer than until it returns or settles. */
export type TakeNode = EarlyNodes['add'];

type ReadPiece = (
  file: number,
  room: Uint8Array,
  offset: number,
  length: number,
  position: number,
) => Promise<{ readonly bytesRead: number }>;

export interface HashFileOptions {
  /** Hears how a larger file gets on. */
  readonly onRead: (bytes: number) => void;
  readonly takeNode?: TakeNode | undefined;
  /** The file was looked at long ago: that it has changed since does not make it one that keeps changing. */
  readonly isSurveyed?: boolean;
  /** Instead of what the system offers, for tests. */
  readonly read?: ReadPiece;
}

/**
 * The file that `stats` was taken of; `open` gives a descriptor of it. A small file is there at once, unless its node has to wait or
 * it has changed. A file that only grows is taken to the length that it had in `stats`: the same bytes twice prove that nothing
 * else changed. Throws or rejects with FileBusyError, or what the system says.
 */
export function hashFile(
  open: () => number,
  stats: FileStats,
  options: HashFileOptions,
): HashedFile | Promise<HashedFile> {
  const offered = new OfferedBytes();
  const read = (before: FileStats): Attempt | Promise<Attempt> => {
    offered.startReading();
    if (before.size <= CHUNK_BYTES_MIN) return hashSmall(open, before, options, offered);
    return hashLarge(open, before, options, offered);
  };
  const first = read(stats);
  return 'hash' in first ? first : readUntilSettled(first, stats, read, options.isSurveyed === true);
}

async function readUntilSettled(
  first: Attempt | Promise<Attempt>,
  stats: FileStats,
  read: (before: FileStats) => Attempt | Promise<Attempt>,
  isSurveyed: boolean,
): Promise<HashedFile> {
  let before = stats;
  let lies = 0;
  let start: ReadStart | undefined;
  for (let attempt = isSurveyed ? UNCOUNTED : 0, reading = first; ; attempt += 1, reading = read(before)) {
    const hashed = await reading;
    if (!('changedTo' in hashed)) return hashed;
    const isSameStart = start !== undefined && start.hash === hashed.start?.hash;
    if (hashed.start !== undefined && isSameStart) return { ...hashed.start, stats: hashed.changedTo };
    // Read as a file, a pipe would look like an empty one.
    if (!hashed.changedTo.isFile())
      throw new FileBusyError('something else took its place while it was read: push again');
    lies = hashed.isOtherLength && hashed.changedTo.size === before.size ? lies + 1 : 0;
    if (lies === 2) {
      throw new FileBusyError(
        `its length is not the ${before.size} bytes that the system says, as of files in /proc and /sys`,
      );
    }
    if (attempt + 1 === ATTEMPTS_MAX) {
      throw new FileBusyError(`it changed each of the ${ATTEMPTS_MAX} times it was read`);
    }
    // The survey was long ago: such a file is looked at again before its length counts.
    start = attempt === UNCOUNTED || start !== undefined ? undefined : hashed.start;
    if (start !== undefined) continue;
    before = hashed.changedTo;
    await setTimeout(RETRY_DELAYS_MS[attempt] ?? 0);
  }
}

type EarlyCounted = Parameters<TakeNode>[2];

/** Counts the bytes of a file that were handed on. If the file is read again, only bytes beyond the earlier readings count. */
class OfferedBytes {
  #most = 0;
  #now = 0;
  #isOffered = false;

  startReading(): void {
    this.#now = 0;
  }

  /** How many of these count. */
  add(bytes: number): number {
    this.#now += bytes;
    const more = Math.max(0, this.#now - this.#most);
    this.#most += more;
    return more;
  }

  /** The node of a file that is one. */
  addWhole(bytes: number): EarlyCounted {
    const files = this.#isOffered ? 0 : 1;
    this.#isOffered = true;
    return { files, bytes: this.add(bytes) };
  }
}

type Attempt =
  | HashedFile
  /** `isOtherLength`: fewer or more bytes came than the file had before. `start`: of a file that has grown, what it had before. */
  | {
      readonly changedTo: FileStats;
      readonly isOtherLength: boolean;
      readonly start?: ReadStart | undefined;
    };

type ReadStart = Omit<HashedFile, 'stats'>;

const fileHeader = (size: number): Uint8Array =>
  encodeNodeHeader({ contentType: FILE_CONTENT_TYPE, refs: [], size });
const chunkHeader = (size: number): Uint8Array =>
  encodeNodeHeader({ contentType: CHUNK_CONTENT_TYPE, refs: [], size });
/** Of one length for every size. */
const FILE_HEADER = fileHeader(0);
/** Each holds one small file as the node that it makes, and one byte more. */
const spareArenas: Uint8Array[] = [];

function makeArena(): Uint8Array {
  const arena = new Uint8Array(FILE_HEADER.length + CHUNK_BYTES_MIN + 1);
  arena.set(FILE_HEADER);
  return arena;
}

function hashSmall(
  open: () => number,
  before: FileStats,
  { takeNode }: HashFileOptions,
  offered: OfferedBytes,
): Attempt | Promise<Attempt> {
  const arena = spareArenas.pop() ?? makeArena();
  let taking: ReturnType<TakeNode> | undefined;
  try {
    const bytes = before.size;
    const { bytes: found, stats } = readSmall(open, bytes, arena);
    const isOtherLength = found !== bytes;
    const isOther = isOtherLength || isChanged(before, stats);
    if (isOther && !hasGrown(before, stats, found)) return { changedTo: stats, isOtherLength };
    writeNodeSize(arena, bytes);
    const canonical = arena.subarray(0, FILE_HEADER.length + bytes);
    const hash = digestWhole(canonical);
    const read = { hash, bytes, indexNodes: [] };
    const attempt = isOther ? { changedTo: stats, isOtherLength, start: read } : { ...read, stats };
    taking = takeNode?.(hash, canonical, offered.addWhole(bytes));
    if (!(taking instanceof Promise)) return attempt;
    return taking.then(() => attempt).finally(() => spareArenas.push(arena));
  } finally {
    if (!(taking instanceof Promise)) spareArenas.push(arena);
  }
}

/** As many bytes as the file has, or one more than `size` if it has more, behind the header of `arena`. */
function readSmall(
  open: () => number,
  size: number,
  arena: Uint8Array,
): { readonly bytes: number; readonly stats: FileStats } {
  const file = open();
  try {
    let bytes = 0;
    for (;;) {
      // One byte more is asked for: what comes shows whether that is the end.
      const count = readSync(file, arena, FILE_HEADER.length + bytes, size + 1 - bytes, null);
      bytes += count;
      if (count === 0 || bytes >= size) break;
    }
    return { bytes, stats: lookAt(file) };
  } finally {
    closeSync(file);
  }
}

/** Always by the same call: a time in floating point is never compared with one that was made in another way. */
function lookAt(file: number): FileStats {
  return lookAtIn(file, '') ?? fstatSync(file);
}

async function hashLarge(
  open: () => number,
  before: FileStats,
  options: HashFileOptions,
  offered: OfferedBytes,
): Promise<Attempt> {
  const file = open();
  try {
    const hashed = await hashPieces(file, before.size, options, offered);
    const stats = lookAt(file);
    const isOtherLength = hashed === undefined;
    if (!isOtherLength && !isChanged(before, stats)) return { ...hashed, stats };
    const start = hasGrown(before, stats, hashed?.bytes ?? 0) ? hashed : undefined;
    return { changedTo: stats, isOtherLength, start };
  } finally {
    closeSync(file);
  }
}

/** Whether it is the same file, with all bytes that it had before. */
function hasGrown(before: FileStats, after: FileStats, bytesRead: number): boolean {
  return after.isFile() && after.ino === before.ino && after.size > before.size && bytesRead >= before.size;
}

/** Undefined when the file has another length by now. */
async function hashPieces(
  file: number,
  size: number,
  { onRead, takeNode, read: readPiece = readAt }: HashFileOptions,
  offered: OfferedBytes,
): Promise<Pick<HashedFile, 'hash' | 'bytes' | 'indexNodes'> | undefined> {
  const indexNodes: IndexNode[] = [];
  const sink = {
    digest: digestAtOnce,
    emit: (node: TreeNode) => {
      const canonical = encodeNode(node);
      indexNodes.push({ hash: node.hash, bytes: canonical });
      return takeNode?.(node.hash, canonical, { files: 0, bytes: 0 });
    },
  };
  const index = new FileIndexBuilder(sink);
  const taken: { readonly bytes: number; readonly hash: Promise<Hash> }[] = [];
  const settleOldest = async (): Promise<void> => {
    const oldest = taken.shift();
    if (oldest !== undefined) await index.add({ bytes: oldest.bytes, hash: await oldest.hash });
  };
  let readBytes = 0;
  try {
    for await (const chunk of readChunks(file, size, readPiece)) {
      if (chunk.length === size) {
        const counts = offered.addWhole(size);
        return {
          hash: await takeContent(fileHeader(size), chunk, takeNode, counts),
          bytes: size,
          indexNodes,
        };
      }
      readBytes += chunk.length;
      onRead(chunk.length);
      // Three chunks of one file are taken at a time: they are compressed, or wait for room in a pack.
      if (taken.length >= 3) await settleOldest();
      const counts = { files: 0, bytes: offered.add(chunk.length) };
      const hash = takeContent(chunkHeader(chunk.length), chunk, takeNode, counts);
      // The failure is thrown where the chunk's turn comes.
      hash.catch(() => undefined);
      taken.push({ bytes: chunk.length, hash });
    }
    if (readBytes !== size) return undefined;
    while (taken.length > 0) await settleOldest();
    return { ...(await index.finish()), indexNodes };
  } finally {
    await Promise.allSettled(taken.map(({ hash }) => hash));
  }
}

/**
 * Looks at `content` only before it returns. Hashing on another thread would need a copy in new memory, which takes more than half
 * of the time that hashing takes.
 */
async function takeContent(
  header: Uint8Array,
  content: Uint8Array,
  takeNode: TakeNode | undefined,
  counts: EarlyCounted,
): Promise<Hash> {
  if (takeNode === undefined) return digestAtOnce(header, content);
  const bytes = chunkMemory.take(header.length + content.length);
  bytes.set(header);
  bytes.set(content, header.length);
  try {
    const hash = digestWhole(bytes);
    await takeNode(hash, bytes, counts);
    return hash;
  } finally {
    chunkMemory.give(bytes);
  }
}

/**
 * The chunks of the first `size` bytes, as views that hold until the next is asked for. A next piece is read while one is
 * looked at. Ends early when the file does.
 */
async function* readChunks(
  file: number,
  size: number,
  readPiece: ReadPiece,
): AsyncGenerator<Uint8Array, void, undefined> {
  // Room for several chunks makes it rare that the rest is moved to the front.
  const memory = chunkMemory.take(Math.min(3 * CHUNK_BYTES_MAX, size));
  let start = 0;
  let filled = 0;
  let scannedEnd = 0;
  let position = 0;
  const readNext = (): Promise<{ bytesRead: number }> => {
    const length = Math.min(READ_BYTES, memory.length - filled, size - position);
    const next = readPiece(file, memory, filled, length, position);
    // Its failure is thrown where the piece is wanted: until then earlier chunks may take a while.
    next.catch(() => undefined);
    return next;
  };
  let reading = readNext();
  try {
    for (;;) {
      const { bytesRead } = await reading;
      filled += bytesRead;
      position += bytesRead;
      const isLast = position >= size || bytesRead === 0;
      if (!isLast && memory.length - filled < READ_BYTES) {
        memory.copyWithin(0, start, filled);
        filled -= start;
        scannedEnd -= start;
        start = 0;
      }
      const window = memory.subarray(0, filled);
      // The next piece arrives behind the window while this one is looked at.
      if (!isLast) reading = readNext();
      while (start < filled) {
        const end = findChunkEnd(window, start, isLast, scannedEnd);
        if (end === undefined) break;
        yield window.subarray(start, end);
        start = end;
        scannedEnd = end;
      }
      if (isLast) return;
      scannedEnd = filled;
    }
  } finally {
    // The file is closed next; nothing may still be reading into memory.
    await reading.catch(() => undefined);
    chunkMemory.give(memory);
  }
}

function isChanged(a: FileStats, b: FileStats): boolean {
  return !isSameFingerprint(fingerprintOf(a), fingerprintOf(b));
}
