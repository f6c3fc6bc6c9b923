/** Makes the nodes of a scanned tree again when the server wants them: directories from the state, file bytes from the files. */
import { close, closeSync, read, readSync } from 'node:fs';
import { promisify } from 'node:util';
import {
  CHUNK_BYTES_MIN,
  CHUNK_CONTENT_TYPE,
  FILE_CONTENT_TYPE,
  type NodeSupply,
  type PushNode,
  parseTreeNode,
  SourceChangedError,
  SYMLINK_CONTENT_TYPE,
} from '@holdfast/client/push';
import { decodeNode, encodeNode, encodeNodeHeader, type Hash, refsToHashes } from '@holdfast/protocol';
import { type ByteString, byteStringOf, displayName, joinPath } from '../byte-names.ts';
import { ResidentMemory } from '../resident-memory.ts';
import { chunkMemory } from './buffer-pool.ts';
import type { FolderState } from './folder-state.ts';
import type { ScannedRoot } from './scan-tree.ts';
import type { SourceFolder, SourceTree } from './source-tree.ts';
import { TreeStateLostError } from './state-failure.ts';

/** The source of a node of the tree. Paths are relative to the root; '' is the root itself. */
type Place =
  /** a directory, or a page or index of it */
  | { readonly kind: 'directory'; readonly directory: number; readonly path: ByteString }
  /** an index of a larger file, from byte `offset` of the file on */
  | {
      readonly kind: 'file-index';
      readonly directory: number;
      readonly name: ByteString;
      readonly path: ByteString;
      readonly offset: number;
    }
  | {
      readonly kind: 'piece';
      readonly contentType: string;
      readonly path: ByteString;
      readonly offset: number;
    }
  | { readonly kind: 'symlink'; readonly path: ByteString };

export interface FolderNode extends PushNode {
  readonly place: Place;
}

/** Pieces up to this are read on this thread, which is faster than handing them to another. */
const READ_AT_ONCE_BYTES_MAX = CHUNK_BYTES_MIN;
const readAt = promisify(read);
const closeLater = promisify(close);

export class FolderSupply implements NodeSupply<FolderNode> {
  readonly root: FolderNode;
  readonly #tree: SourceTree;
  readonly #state: FolderState;
  readonly #memory = new ResidentMemory();

  /** `tree` was scanned into `state`. */
  constructor(tree: SourceTree, scanned: ScannedRoot, state: FolderState) {
    this.#tree = tree;
    this.#state = state;
    this.root =
      scanned.kind === 'directory'
        ? this.#directoryNode(scanned, scanned.directoryId, '')
        : this.#entryNode(scanned.kind, scanned, scanned.directoryId, '', '');
  }

  nameOf({ place }: FolderNode): string {
    return displayName(place.path === '' ? this.#tree.rootPath : place.path);
  }

  sizeOf({ bytes, place }: FolderNode): number {
    const isContent = place.kind === 'piece' || place.kind === 'symlink';
    // A node of the tree format has less than 128 bytes before its content. Folders and indexes count as large.
    return 128 + (isContent ? bytes : 256 * 1024);
  }

  async makeNode(node: FolderNode): Promise<Uint8Array> {
    const { place } = node;
    switch (place.kind) {
      case 'piece':
        return this.#atSource(node, () => this.#readPiece(node, place.offset, place.contentType));
      case 'symlink':
        return this.#atSource(node, async () => {
          const { folder, name } = this.#sourceOf(place.path);
          const content = folder.readLink(name);
          return encodeNode({ contentType: SYMLINK_CONTENT_TYPE, refs: [], content });
        });
      default:
        return this.#storedNode(node);
    }
  }

  releaseNode(bytes: Uint8Array): void {
    this.#memory.passed(bytes.length);
    chunkMemory.give(bytes);
  }

  async listChildren(node: FolderNode): Promise<readonly FolderNode[]> {
    const { place } = node;
    if (place.kind === 'piece' || place.kind === 'symlink') return [];
    const { contentType, refs, content } = decodeNode(this.#storedNode(node));
    const parsed = parseTreeNode({ contentType, refs: refsToHashes(refs), content });
    if (parsed.type === 'file-index' && place.kind === 'file-index') {
      let { offset } = place;
      return parsed.children.map(({ hash, bytes }) => {
        const at = offset;
        offset += bytes;
        return parsed.level === 1
          ? this.#pieceNode({ hash, bytes, entryCount: 0 }, CHUNK_CONTENT_TYPE, place.path, at)
          : { hash, bytes, entryCount: 0, isLeaf: false, place: { ...place, offset: at } };
      });
    }
    if (parsed.type === 'directory-index') {
      return parsed.children.map(({ hash, bytes, entryCount }) => ({
        hash,
        bytes,
        entryCount,
        isLeaf: false,
        place,
      }));
    }
    if (parsed.type !== 'directory' || place.kind !== 'directory') {
      throw new TreeStateLostError('damaged', 'it holds another node than it should');
    }
    return parsed.entries.map((entry) => {
      const name = byteStringOf(entry.name);
      const path = joinPath(place.path, name);
      const counted = { hash: entry.hash, bytes: entry.bytes, entryCount: entry.entryCount + 1 };
      if (entry.kind !== 'directory') {
        return this.#entryNode(entry.kind, counted, place.directory, name, path);
      }
      const row = this.#state.findDirectory(place.directory, name);
      return this.#directoryNode(counted, row?.id ?? 0, path);
    });
  }

  #directoryNode(counted: Omit<PushNode, 'isLeaf'>, directory: number, path: ByteString): FolderNode {
    const { hash, bytes, entryCount } = counted;
    return { hash, bytes, entryCount, isLeaf: false, place: { kind: 'directory', directory, path } };
  }

  #entryNode(
    kind: 'file' | 'symlink',
    counted: Omit<PushNode, 'isLeaf'>,
    directory: number,
    name: ByteString,
    path: ByteString,
  ): FolderNode {
    const { hash, bytes, entryCount } = counted;
    if (kind === 'symlink')
      return { hash, bytes, entryCount, isLeaf: true, place: { kind: 'symlink', path } };
    if (bytes <= CHUNK_BYTES_MIN || !this.#isIndexed(directory, name, hash, path)) {
      return this.#pieceNode(counted, FILE_CONTENT_TYPE, path, 0);
    }
    const place: Place = { kind: 'file-index', directory, name, path, offset: 0 };
    return { hash, bytes, entryCount, isLeaf: false, place };
  }

  #isIndexed(directory: number, name: ByteString, hash: Hash, path: ByteString): boolean {
    const entry = this.#state.findFile(directory, name);
    if (entry?.hash === hash) return entry.isIndexed;
    throw new TreeStateLostError('damaged', `it does not know ${displayName(path)} as the tree has it`);
  }

  #pieceNode(
    counted: Omit<PushNode, 'isLeaf'>,
    contentType: string,
    path: ByteString,
    offset: number,
  ): FolderNode {
    const { hash, bytes, entryCount } = counted;
    return { hash, bytes, entryCount, isLeaf: true, place: { kind: 'piece', contentType, path, offset } };
  }

  #storedNode({ hash, place }: FolderNode): Uint8Array {
    const name = place.kind === 'file-index' ? place.name : '';
    const directory = place.kind === 'directory' || place.kind === 'file-index' ? place.directory : 0;
    const bytes = this.#state.findNode(directory, name, hash);
    if (bytes !== undefined) return bytes;
    throw new TreeStateLostError('damaged', `it lacks a node of ${displayName(place.path)}`);
  }

  async #readPiece(node: FolderNode, offset: number, contentType: string): Promise<Uint8Array> {
    const header = encodeNodeHeader({ contentType, refs: [], size: node.bytes });
    const bytes = chunkMemory.take(header.length + node.bytes);
    bytes.set(header);
    const content = bytes.subarray(header.length);
    const { folder, name } = this.#sourceOf(node.place.path);
    const file = folder.openFile(name);
    const isWhole =
      node.bytes <= READ_AT_ONCE_BYTES_MAX
        ? readAtOnce(file, content, offset)
        : await readMeanwhile(file, content, offset);
    if (!isWhole) throw new SourceChangedError(this.nameOf(node));
    return bytes;
  }

  async #atSource(node: FolderNode, read: () => Promise<Uint8Array>): Promise<Uint8Array> {
    try {
      return await read();
    } catch (cause) {
      if (cause instanceof Error && 'syscall' in cause)
        throw new SourceChangedError(this.nameOf(node), { cause });
      throw cause;
    }
  }

  #sourceOf(path: ByteString): { readonly folder: SourceFolder; readonly name: ByteString } {
    if (path === '') return { folder: this.#tree.folder(''), name: this.#tree.rootName };
    const slash = path.lastIndexOf('/');
    return { folder: this.#tree.folder(path.slice(0, Math.max(0, slash))), name: path.slice(slash + 1) };
  }
}

/** Whether there were as many bytes as there is room. Closes the file. */
function readAtOnce(file: number, room: Uint8Array, offset: number): boolean {
  try {
    for (let filled = 0; filled < room.length; ) {
      const count = readSync(file, room, filled, room.length - filled, offset + filled);
      if (count === 0) return false;
      filled += count;
    }
    return true;
  } finally {
    closeSync(file);
  }
}

async function readMeanwhile(file: number, room: Uint8Array, offset: number): Promise<boolean> {
  try {
    for (let filled = 0; filled < room.length; ) {
      const { bytesRead } = await readAt(file, room, filled, room.length - filled, offset + filled);
      if (bytesRead === 0) return false;
      filled += bytesRead;
    }
    return true;
  } finally {
    await closeLater(file);
  }
}
