/** The bytes of a file, whole or a range, in verified pieces. */
import type { Hash } from '@holdfast/protocol';
import { addTotal, TreeFormatError } from '../format/tree-format.ts';
import type { ParsedNode } from '../format/tree-node.ts';
import {
  atNode,
  type FileRef,
  hashOf,
  loadInOrder,
  type NodeSource,
  type ReadOptions,
  readTreeNode,
} from './node-source.ts';

/** Bytes `start` up to but not including `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** What the nodes above say of a part of a file. */
export interface ExpectedFilePart {
  /** 0: a chunk; undefined at the root */
  readonly level: number | undefined;
  readonly bytes: number | undefined;
}

export type FilePart = Extract<ParsedNode, { readonly type: 'file' | 'chunk' | 'file-index' }>;

/**
 * The bytes of `file`, or those of `range` that exist, in order. Each piece is at most CHUNK_BYTES_MAX and was verified as
 * part of its whole node; only nodes that hold bytes of the range are read. Throws TreeFormatError, and RangeError for a
 * range that is none.
 */
export async function* readFilePieces(
  source: NodeSource,
  file: FileRef,
  range: ByteRange,
  options: ReadOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { start, end } = range;
  if (!(start >= 0 && start <= end && Number.isInteger(start))) {
    throw new RangeError(`the range from ${start} to ${end} is none; 0 <= start <= end`);
  }
  const expected = { level: undefined, bytes: typeof file === 'string' ? undefined : file.bytes };
  const pieces = walkPieces(source, hashOf(file), expected, range, options);
  for await (const piece of loadInOrder(pieces, options)) if (piece.length > 0) yield piece;
}

/** One load per chunk that the range touches, in order. `range` counts from the beginning of this node's bytes. */
async function* walkPieces(
  source: NodeSource,
  hash: Hash,
  expected: ExpectedFilePart,
  range: ByteRange,
  options: ReadOptions,
): AsyncGenerator<() => Promise<Uint8Array>, void, undefined> {
  const part = await readFilePart(source, hash, expected, options);
  if (part.type !== 'file-index') {
    yield async () => part.content.subarray(range.start, range.end);
    return;
  }
  const level = part.level - 1;
  let offset = 0;
  for (const child of part.children) {
    const start = Math.max(0, range.start - offset);
    const end = Math.min(child.bytes, range.end - offset);
    offset += child.bytes;
    if (start >= end) continue;
    const below = { level, bytes: child.bytes };
    if (level === 0) yield () => readChunk(source, child.hash, below, { start, end }, options);
    else yield* walkPieces(source, child.hash, below, { start, end }, options);
  }
}

async function readChunk(
  source: NodeSource,
  hash: Hash,
  expected: ExpectedFilePart,
  range: ByteRange,
  options: ReadOptions,
): Promise<Uint8Array> {
  const part = await readFilePart(source, hash, expected, options);
  // readFilePart has checked that the level is 0.
  return part.type === 'file-index' ? new Uint8Array(0) : part.content.subarray(range.start, range.end);
}

export async function readFilePart(
  source: NodeSource,
  hash: Hash,
  expected: ExpectedFilePart,
  options: ReadOptions,
): Promise<FilePart> {
  const node = await readTreeNode(source, hash, options);
  return atNode(hash, () => checkPart(node, expected));
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

/** Bytes of the file in this node and below. */
export function countFileBytes(part: FilePart): number {
  if (part.type !== 'file-index') return part.content.length;
  return part.children.reduce((total, child) => addTotal(total, child.bytes), 0);
}
