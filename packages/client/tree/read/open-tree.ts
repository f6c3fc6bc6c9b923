/** Reads trees node by node. What a node says of another is checked when that is read: one consistent tree, or a TreeFormatError. */
import type { Hash } from '@holdfast/protocol';
import { checkMethod } from '../../arguments.ts';
import type { Client } from '../../client.ts';
import type { CallOptions } from '../../operations.ts';
import { sumTotals } from '../format/directory-node.ts';
import { type DirectoryEntry, findNameFault, TreeFormatError } from '../format/tree-format.ts';
import { findDirectoryEntry, readDirectoryEntries } from './directory-parts.ts';
import { countFileBytes, type FileReadOptions, readFilePieces } from './file-parts.ts';
import {
  atNode,
  type DirectoryRef,
  type FileRef,
  type FolderKeeper,
  hashOf,
  type NodeSource,
  type ReadOptions,
  readTreeNode,
} from './node-source.ts';

/** A file, directory or link, and what its parent says of it. */
export type TreeItem = Omit<DirectoryEntry, 'name'>;

export type TreePathReason = 'not-found' | 'not-a-directory';

/** A path leads nowhere in this tree. */
export class TreePathError extends Error {
  override readonly name = 'TreePathError';
  readonly reason: TreePathReason;
  /** position of the name in the path that was not found, or that is below something without entries */
  readonly position: number;

  constructor(message: string, reason: TreePathReason, position: number) {
    super(message);
    this.reason = reason;
    this.position = position;
  }
}

/** Everything rejects with TreeFormatError where nodes break the format, and with what the source rejects with. */
export interface TreeReader {
  /** The item of `hash`: the root of a file, directory or link. As a root it has neither mode nor time. */
  readItem(hash: Hash, options?: CallOptions): Promise<TreeItem>;
  /** The entries of a directory in the order of their names, over all its pages. */
  readDirectory(
    directory: DirectoryRef,
    options?: ReadOptions,
  ): AsyncGenerator<DirectoryEntry, void, undefined>;
  /** One entry by its name; reads one page and the indexes above it. */
  findEntry(
    directory: DirectoryRef,
    name: Uint8Array,
    options?: CallOptions,
  ): Promise<DirectoryEntry | undefined>;
  /** The item at the names from `root`; links are not followed. Rejects with TreePathError. */
  resolvePath(root: Hash, names: readonly Uint8Array[], options?: CallOptions): Promise<TreeItem>;
  /** The file's bytes, or those of a range, in verified pieces of at most CHUNK_BYTES_MAX. */
  readFile(file: FileRef, options?: FileReadOptions): AsyncGenerator<Uint8Array, void, undefined>;
  /** The target of a link, raw bytes. */
  readSymlink(link: FileRef, options?: CallOptions): Promise<Uint8Array>;
}

/** Reads trees whose nodes `source` gives. Sends nothing by itself. */
export function openTree(source: NodeSource): TreeReader {
  checkMethod({ name: 'openTree', requestOperation: 'readNodes' }, 'the source', source, 'readNode');
  return {
    readItem: (hash, options = {}) => readItem(source, hash, options),
    readDirectory: (directory, options = {}) => readDirectoryEntries(source, directory, options),
    findEntry: (directory, name, options = {}) => findDirectoryEntry(source, directory, name, options),
    resolvePath: (root, names, options = {}) => resolvePath(source, root, names, options),
    readFile: (file, options = {}) => readFilePieces(source, file, options),
    readSymlink: (link, options = {}) => readSymlink(source, link, options),
  };
}

/** The nodes of a Space, each verified against its hash. */
export function createNodeSource(client: Pick<Client, 'getNode'> & FolderKeeper): NodeSource {
  checkMethod({ name: 'createNodeSource', requestOperation: 'readNodes' }, 'client', client, 'getNode');
  return {
    parsedFolders: client.parsedFolders,
    async readNode(hash, options) {
      const { metadata, content } = await client.getNode(hash, options);
      return { contentType: metadata.contentType, refs: metadata.refs, content };
    },
  };
}

async function readItem(source: NodeSource, hash: Hash, options: CallOptions): Promise<TreeItem> {
  const node = await readTreeNode(source, hash, options);
  const item = { hash, entryCount: 0, isExecutable: false, mtimeNs: undefined };
  switch (node.type) {
    case 'file':
    case 'file-index':
      return { ...item, kind: 'file', bytes: countFileBytes(node) };
    case 'symlink':
      return { ...item, kind: 'symlink', bytes: node.target.length };
    case 'directory':
      return { ...item, kind: 'directory', ...sumTotals(node.entries) };
    case 'directory-index':
      return { ...item, kind: 'directory', ...sumTotals(node.children, 0) };
    case 'chunk':
      throw new TreeFormatError('this is a piece of a file, not the root of a tree', hash);
  }
}

async function resolvePath(
  source: NodeSource,
  root: Hash,
  names: readonly Uint8Array[],
  options: CallOptions,
): Promise<TreeItem> {
  if (names.length === 0) return readItem(source, root, options);
  let item: TreeItem | undefined;
  for (const [position, name] of names.entries()) {
    item ??= await readItem(source, root, options);
    if (item.kind !== 'directory') {
      const message = `there is nothing below ${describePath(root, names.slice(0, position))}: it is a ${item.kind}`;
      throw new TreePathError(message, 'not-a-directory', position);
    }
    const isPossible = findNameFault(name) === undefined;
    const found = isPossible ? await findDirectoryEntry(source, item, name, options) : undefined;
    if (found === undefined) {
      const message = `${describePath(root, names.slice(0, position + 1))} does not exist in this tree`;
      throw new TreePathError(message, 'not-found', position);
    }
    item = found;
  }
  return item as TreeItem;
}

function describePath(root: Hash, names: readonly Uint8Array[]): string {
  const decoder = new TextDecoder();
  return [root, ...names.map((name) => decoder.decode(name))].join('/');
}

async function readSymlink(source: NodeSource, link: FileRef, options: CallOptions): Promise<Uint8Array> {
  const hash = hashOf(link);
  const node = await readTreeNode(source, hash, options);
  return atNode(hash, () => {
    if (node.type !== 'symlink') throw new TreeFormatError(`a link should be here; this is a ${node.type}`);
    if (typeof link !== 'string' && link.bytes !== node.target.length) {
      throw new TreeFormatError(
        `the node above says ${link.bytes} bytes of target; here are ${node.target.length}`,
      );
    }
    return node.target;
  });
}
