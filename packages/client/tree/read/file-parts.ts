/** Files: what each is made of, and its bytes, whole or a range, in verified pieces. */
import type { Hash } from '@holdfast/protocol';
import { mapInOrder } from '../../map-in-order.ts';
import type { CallOptions } from '../../operations.ts';
import { addTotal, CHUNK_BYTES_MAX, TreeFormatError } from '../format/tree-format.ts';
import type { ParsedNode } from '../format/tree-node.ts';
import {
  atNode,
  type FileRef,
  hashOf,
  type NodeSource,
  READ_AHEAD_NODES_DEFAULT,
  type ReadOptions,
  readTreeNode,
} from './node-source.ts';

/** Bytes `start` up to but not including `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export interface FileReadOptions extends ReadOptions {
  /** The whole file when left out; bytes beyond its end do not exist. */
  readonly range?: ByteRange | undefined;
}

/** A part of a file as the nodes above describe it. */
export interface ExpectedFilePart {
  /** 0: a chunk; undefined at the root */
  readonly level: number | undefined;
  readonly bytes: number | undefined;
}

export type FilePart = Extract<ParsedNode, { readonly type: 'file' | 'chunk' | 'file-index' }>;

export interface ChunkPlace {
  readonly hash: Hash;
  /** first byte in the file */
  readonly offset: number;
  readonly bytes: number;
}

/** A file as what it is made of: its bytes when they are one node, else its chunks and where they go. */
export type OpenedFile =
  | { readonly type: 'whole'; readonly content: Uint8Array }
  | { readonly type: 'chunks'; readonly chunks: AsyncGenerator<ChunkPlace, void, undefined> };

const WHOLE_FILE: ByteRange = { start: 0, end: Number.POSITIVE_INFINITY };

/** Reads the root of `file`, and indexes as chunks are asked for: only those with bytes of `range`. Throws TreeFormatError. */
export async function openFile(
  source: NodeSource,
  file: FileRef,
  options: CallOptions,
  range: ByteRange = WHOLE_FILE,
): Promise<OpenedFile> {
  const hash = hashOf(file);
  const expected = { level: undefined, bytes: typeof file === 'string' ? undefined : file.bytes };
  const part = await readFilePart(source, hash, expected, options);
  if (part.type !== 'file-index') return { type: 'whole', content: part.content };
  return { type: 'chunks', chunks: walkChunks(source, part, 0, range, options) };
}

async function* walkChunks(
  source: NodeSource,
  index: Extract<FilePart, { type: 'file-index' }>,
  start: number,
  range: ByteRange,
  options: CallOptions,
): AsyncGenerator<ChunkPlace, void, undefined> {
  let offset = start;
  for (const { hash, bytes } of index.children) {
    const place = { hash, offset, bytes };
    offset += bytes;
    if (place.offset >= range.end || offset <= range.start) continue;
    if (index.level === 1) yield place;
    else {
      const below = await readFilePart(source, hash, { level: index.level - 1, bytes }, options);
      if (below.type === 'file-index') yield* walkChunks(source, below, place.offset, range, options);
    }
  }
}

/** The bytes of one chunk, verified. Throws TreeFormatError. */
export async function readChunk(
  source: NodeSource,
  { hash, bytes }: ChunkPlace,
  options: CallOptions,
): Promise<Uint8Array> {
  const part = await readFilePart(source, hash, { level: 0, bytes }, options);
  if (part.type === 'file-index') throw new TypeError('a part of level 0 is no index');
  return part.content;
}

/**
 * The bytes of `file`, or those of `range` that exist, in order. Each piece is at most CHUNK_BYTES_MAX and was verified as
 * part of its whole node; only nodes that hold bytes of the range are read. Throws TreeFormatError, and RangeError for a
 * range that is none.
 */
export function readFilePieces(
  source: NodeSource,
  file: FileRef,
  { range = WHOLE_FILE, ...options }: FileReadOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { start, end } = range;
  const width = 1 + (options.readAheadNodes ?? READ_AHEAD_NODES_DEFAULT);
  // A generator around this one would keep each piece until it is asked for the next.
  return mapInOrder(walkPieces(source, file, options, range), width, async (piece) => {
    if (piece instanceof Uint8Array) return piece;
    const content = await readChunk(source, piece, options);
    return content.subarray(Math.max(0, start - piece.offset), end - piece.offset);
  });
}

/** The one piece of a whole file, if it has bytes, or where each is. */
async function* walkPieces(
  source: NodeSource,
  file: FileRef,
  options: CallOptions,
  range: ByteRange,
): AsyncGenerator<Uint8Array | ChunkPlace, void, undefined> {
  const { start, end } = range;
  if (!(start >= 0 && start <= end && Number.isInteger(start))) {
    throw new RangeError(`the range from ${start} to ${end} is none; 0 <= start <= end`);
  }
  const opened = await openFile(source, file, options, range);
  if (opened.type === 'chunks') return yield* opened.chunks;
  const piece = opened.content.subarray(start, end);
  if (piece.length > 0) yield piece;
}

export async function readFilePart(
  source: NodeSource,
  hash: Hash,
  expected: ExpectedFilePart,
  options: CallOptions,
): Promise<FilePart> {
  const contentBytes = countContentBytes(expected);
  const node = await readTreeNode(source, hash, { signal: options.signal, contentBytes });
  return atNode(hash, () => checkPart(node, expected));
}

/** The expected content of the node itself, as far as it is known: a file that would fit in one node may still be an index. */
export function countContentBytes({ level, bytes }: ExpectedFilePart): number | undefined {
  const mayBeWhole = level === 0 || (level === undefined && (bytes ?? 0) <= CHUNK_BYTES_MAX);
  return mayBeWhole ? bytes : undefined;
}

function checkPart(node: ParsedNode, { level, bytes }: ExpectedFilePart): FilePart {
  if (node.type !== 'file' && node.type !== 'chunk' && node.type !== 'file-index') {
    throw new TreeFormatError(`a file should be here; this is a ${node.type}`);
  }
  const ownLevel = node.type === 'file-index' ? node.level : 0;
  const isWrongLevel = level === undefined ? node.type === 'chunk' : ownLevel !== level;
  if (isWrongLevel || (level === 0 && node.type !== 'chunk')) {
    const wanted =
      level === undefined ? 'a whole file' : level === 0 ? 'a chunk' : `an index of level ${level}`;
    throw new TreeFormatError(`${wanted} should be here; this is a ${node.type}`);
  }
  const ownBytes = countFileBytes(node);
  if (bytes !== undefined && ownBytes !== bytes) {
    throw new TreeFormatError(`the node above says ${bytes} bytes; here are ${ownBytes}`);
  }
  return node;
}

export function countFileBytes(part: FilePart): number {
  if (part.type !== 'file-index') return part.content.length;
  return part.children.reduce((total, child) => addTotal(total, child.bytes), 0);
}
