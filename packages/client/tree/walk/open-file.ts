/** A file as what it is made of: its bytes when they are one node, else its chunks and where they go. */
import type { Hash } from '@holdfast/protocol';
import type { CallOptions } from '../../operations.ts';
import { type FilePart, readFilePart } from '../read/file-parts.ts';
import type { NodeSource } from '../read/node-source.ts';

export interface ChunkPlace {
  readonly hash: Hash;
  /** first byte in the file */
  readonly offset: number;
  readonly bytes: number;
}

export type OpenedFile =
  | { readonly type: 'whole'; readonly content: Uint8Array }
  | { readonly type: 'chunks'; readonly chunks: AsyncGenerator<ChunkPlace, void, undefined> };

/** Reads the root node of `file`, and the indexes below as the chunks are asked for. Throws TreeFormatError. */
export async function openFile(
  source: NodeSource,
  file: { readonly hash: Hash; readonly bytes: number },
  options: CallOptions = {},
): Promise<OpenedFile> {
  const part = await readFilePart(source, file.hash, { level: undefined, bytes: file.bytes }, options);
  if (part.type !== 'file-index') return { type: 'whole', content: part.content };
  return { type: 'chunks', chunks: walkChunks(source, part, 0, options) };
}

/** The bytes of one chunk, verified. Throws TreeFormatError. */
export async function readChunk(
  source: NodeSource,
  { hash, bytes }: ChunkPlace,
  options: CallOptions = {},
): Promise<Uint8Array> {
  const part = await readFilePart(source, hash, { level: 0, bytes }, options);
  if (part.type === 'file-index') throw new TypeError('a part of level 0 is no index');
  return part.content;
}

async function* walkChunks(
  source: NodeSource,
  index: Extract<FilePart, { type: 'file-index' }>,
  start: number,
  options: CallOptions,
): AsyncGenerator<ChunkPlace, void, undefined> {
  let offset = start;
  for (const { hash, bytes } of index.children) {
    if (index.level === 1) yield { hash, offset, bytes };
    else {
      const below = await readFilePart(source, hash, { level: index.level - 1, bytes }, options);
      if (below.type === 'file-index') yield* walkChunks(source, below, offset, options);
    }
    offset += bytes;
  }
}
