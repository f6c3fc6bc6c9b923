/** Files, chunks, file indexes and symbolic links, as docs/tree-format.md lays them out; and any tree node by its type. */

import { parseDirectory, parseDirectoryIndex } from './directory-node.ts';
import { checkU64, FieldReader, FieldWriter, TREE_HEADER_BYTES } from './field-bytes.ts';
import {
  addTotal,
  CHUNK_BYTES_MAX,
  CHUNK_CONTENT_TYPE,
  checkIndexShape,
  DIRECTORY_CONTENT_TYPE,
  DIRECTORY_INDEX_CONTENT_TYPE,
  type DirectoryEntry,
  type DirectoryIndex,
  FILE_CONTENT_TYPE,
  FILE_INDEX_CONTENT_TYPE,
  type FileIndex,
  type FileIndexChild,
  findSymlinkTargetFault,
  type NodeParts,
  SYMLINK_CONTENT_TYPE,
  type TreeContentType,
  TreeFormatError,
} from './tree-format.ts';

/** A file of one chunk. Throws TreeFormatError when it has more than CHUNK_BYTES_MAX bytes. */
export function encodeFile(content: Uint8Array): NodeParts {
  return checkPiece({ contentType: FILE_CONTENT_TYPE, refs: [], content });
}

/** A piece of a larger file. Throws TreeFormatError unless it has 1 to CHUNK_BYTES_MAX bytes. */
export function encodeChunk(content: Uint8Array): NodeParts {
  return checkPiece({ contentType: CHUNK_CONTENT_TYPE, refs: [], content });
}

/** Throws TreeFormatError unless `target` is 1 to SYMLINK_TARGET_BYTES_MAX bytes without NUL. */
export function encodeSymlink(target: Uint8Array): NodeParts {
  const fault = findSymlinkTargetFault(target);
  if (fault !== undefined) throw new TreeFormatError(fault);
  return { contentType: SYMLINK_CONTENT_TYPE, refs: [], content: target };
}

/** The index of a larger file, or a part of it. Throws TreeFormatError unless its children are valid. */
export function encodeFileIndex({ level, children }: FileIndex): NodeParts {
  checkIndexShape(level, children.length);
  checkChildren(level, children);
  const writer = new FieldWriter(TREE_HEADER_BYTES + children.length * 8);
  writer.header(level);
  for (const { bytes } of children) writer.u64(bytes);
  return {
    contentType: FILE_INDEX_CONTENT_TYPE,
    refs: children.map(({ hash }) => hash),
    content: writer.bytes,
  };
}

/** Throws TreeFormatError. */
function parseFileIndex(node: NodeParts): FileIndex {
  const reader = new FieldReader(node.content);
  const level = reader.header();
  checkIndexShape(level, node.refs.length);
  const children = node.refs.map((hash) => ({ hash, bytes: reader.u64('byte length') }));
  reader.end();
  checkChildren(level, children);
  return { level, children };
}

/** A tree node by what it is. Bytes and names are views of the node's content. */
export type ParsedNode =
  | { readonly type: 'file'; readonly content: Uint8Array }
  | { readonly type: 'chunk'; readonly content: Uint8Array }
  | { readonly type: 'symlink'; readonly target: Uint8Array }
  | { readonly type: 'directory'; readonly entries: readonly DirectoryEntry[] }
  | ({ readonly type: 'directory-index' } & DirectoryIndex)
  | ({ readonly type: 'file-index' } & FileIndex);

/** Reads any node of the format. Throws TreeFormatError, also for a node of another type. */
export function parseTreeNode(node: NodeParts): ParsedNode {
  switch (node.contentType as TreeContentType) {
    case FILE_CONTENT_TYPE:
      return { type: 'file', content: checkPiece(node).content };
    case CHUNK_CONTENT_TYPE:
      return { type: 'chunk', content: checkPiece(node).content };
    case SYMLINK_CONTENT_TYPE:
      checkNoRefs(node);
      return { type: 'symlink', target: encodeSymlink(node.content).content };
    case DIRECTORY_CONTENT_TYPE:
      return { type: 'directory', entries: parseDirectory(node) };
    case DIRECTORY_INDEX_CONTENT_TYPE:
      return { type: 'directory-index', ...parseDirectoryIndex(node) };
    case FILE_INDEX_CONTENT_TYPE:
      return { type: 'file-index', ...parseFileIndex(node) };
    default:
      throw new TreeFormatError(`the content type ${node.contentType} is none of the tree format`);
  }
}

function checkPiece(node: NodeParts): NodeParts {
  checkNoRefs(node);
  const { contentType, content } = node;
  if (content.length > CHUNK_BYTES_MAX) {
    throw new TreeFormatError(
      `one node holds ${content.length} bytes of a file; at most ${CHUNK_BYTES_MAX} are allowed`,
    );
  }
  if (contentType === CHUNK_CONTENT_TYPE && content.length === 0)
    throw new TreeFormatError('a chunk is empty');
  return node;
}

function checkNoRefs({ contentType, refs }: NodeParts): void {
  if (refs.length > 0) throw new TreeFormatError(`a node ${contentType} has no refs; this one has some`);
}

function checkChildren(level: number, children: readonly FileIndexChild[]): void {
  let total = 0;
  for (const { bytes } of children) {
    checkU64(bytes, 'byte length');
    if (bytes === 0) throw new TreeFormatError('a child of a file index has no bytes');
    if (level === 1 && bytes > CHUNK_BYTES_MAX) {
      throw new TreeFormatError(`a chunk has ${bytes} bytes; at most ${CHUNK_BYTES_MAX} are allowed`);
    }
    total = addTotal(total, bytes);
  }
}
