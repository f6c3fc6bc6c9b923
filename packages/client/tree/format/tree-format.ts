/** The tree format, version 1 (docs/tree-format.md): content types, limits, shapes of nodes, and the error its parsers throw. */
import { type Hash, INTEGER_MAX, KIB_BYTES, MIB_BYTES, NODE_REFS_MAX } from '@holdfast/protocol';

/** A whole file whose bytes make a single chunk: its content is the file, so `readContent` of its hash is too. */
export const FILE_CONTENT_TYPE = 'application/vnd.holdfast.tree.file.v1';
/** A larger file: its children are chunks, or indexes one level lower. */
export const FILE_INDEX_CONTENT_TYPE = 'application/vnd.holdfast.tree.file-index.v1';
export const CHUNK_CONTENT_TYPE = 'application/vnd.holdfast.tree.chunk.v1';
/** A directory, or one page of a wide one. */
export const DIRECTORY_CONTENT_TYPE = 'application/vnd.holdfast.tree.directory.v1';
/** A wide directory: its children are pages, or indexes one level lower. */
export const DIRECTORY_INDEX_CONTENT_TYPE = 'application/vnd.holdfast.tree.directory-index.v1';
/** A symbolic link: its content is the target. */
export const SYMLINK_CONTENT_TYPE = 'application/vnd.holdfast.tree.symlink.v1';

export type TreeContentType =
  | typeof FILE_CONTENT_TYPE
  | typeof FILE_INDEX_CONTENT_TYPE
  | typeof CHUNK_CONTENT_TYPE
  | typeof DIRECTORY_CONTENT_TYPE
  | typeof DIRECTORY_INDEX_CONTENT_TYPE
  | typeof SYMLINK_CONTENT_TYPE;

/** Chunks are cut between these; a file of at most the minimum is one chunk. */
export const CHUNK_BYTES_MIN = 256 * KIB_BYTES;
export const CHUNK_BYTES_TARGET = MIB_BYTES;
export const CHUNK_BYTES_MAX = 4 * MIB_BYTES;

/** Children of a page or index: a split is possible from the minimum on and forced at the maximum. */
export const CHILDREN_MIN = 32;
export const CHILDREN_MAX = NODE_REFS_MAX;
/** The highest level of an index. With 32 children each, these levels hold more than the largest file or directory. */
export const INDEX_LEVEL_MAX = 12;

export const NAME_BYTES_MAX = 1024;
export const SYMLINK_TARGET_BYTES_MAX = 4096;

/** The range of a modification time, ns since the epoch: from 1677 to 2262. */
export const MTIME_NS_MIN = -(2n ** 63n);
export const MTIME_NS_MAX = 2n ** 63n - 1n;

/** The largest content of a tree node: what a reader must be ready to hold. */
export const TREE_NODE_CONTENT_BYTES_MAX = Math.max(
  CHUNK_BYTES_MAX,
  // An entry has at most 32 bytes beside its name.
  CHILDREN_MAX * (NAME_BYTES_MAX + 32),
);

/** Bytes that are no node of the tree format, or parts that make none. The message says which rule they break. */
export class TreeFormatError extends Error {
  override readonly name = 'TreeFormatError';
  readonly hash: Hash | undefined;

  constructor(message: string, hash?: Hash) {
    super(hash === undefined ? message : `${hash}: ${message}`);
    this.hash = hash;
  }
}

/** A node without its hash: what the encoders give and the parsers take. */
export interface NodeParts {
  readonly contentType: string;
  /** ordered children */
  readonly refs: readonly Hash[];
  readonly content: Uint8Array;
}

/** A node and the hash of its canonical bytes. */
export interface TreeNode extends NodeParts {
  readonly hash: Hash;
  readonly contentType: TreeContentType;
}

export type EntryKind = 'file' | 'directory' | 'symlink';

export interface TreeTotals {
  /** sizes of all files and lengths of all link targets below, bytes */
  readonly bytes: number;
  /** entries below at any depth: files, directories and links */
  readonly entryCount: number;
}

export interface DirectoryEntry extends TreeTotals {
  /** 1 to NAME_BYTES_MAX raw bytes; no `/`, no NUL, neither `.` nor `..` */
  readonly name: Uint8Array;
  readonly kind: EntryKind;
  /** a file or file index; a directory or directory index; a symlink */
  readonly hash: Hash;
  /** the file's size, the link target's length, or the sum below the directory */
  readonly bytes: number;
  /** below a directory; 0 for files and links */
  readonly entryCount: number;
  /** of files only */
  readonly isExecutable: boolean;
  /** ns since the epoch, a signed 64-bit integer; recorded only when asked for */
  readonly mtimeNs: bigint | undefined;
}

export interface DirectoryIndexChild extends TreeTotals {
  /** a directory page at level 1, else an index one level lower */
  readonly hash: Hash;
  /** the first name in it */
  readonly firstName: Uint8Array;
}

export interface DirectoryIndex {
  /** 1: the children are pages */
  readonly level: number;
  readonly children: readonly DirectoryIndexChild[];
}

export interface FileIndexChild {
  /** a chunk at level 1, else an index one level lower */
  readonly hash: Hash;
  /** of the file, in this child */
  readonly bytes: number;
}

export interface FileIndex {
  /** 1: the children are chunks */
  readonly level: number;
  readonly children: readonly FileIndexChild[];
}

/** Unsigned byte order; a name before its extensions. Negative when `a` comes first, 0 when equal. */
export function compareNames(a: Uint8Array, b: Uint8Array): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index += 1) {
    const difference = (a[index] as number) - (b[index] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** The rule that `name` breaks as a name of an entry, or undefined. */
export function findNameFault(name: Uint8Array): string | undefined {
  if (name.length === 0) return 'a name is empty';
  if (name.length > NAME_BYTES_MAX) {
    return `a name has ${name.length} bytes; at most ${NAME_BYTES_MAX} are allowed`;
  }
  for (let index = 0; index < name.length; index += 1) {
    if (name[index] === 0x2f /* / */) return "a name holds '/'";
    if (name[index] === 0) return 'a name holds a NUL byte';
  }
  if (name[0] !== 0x2e /* . */ || name.length > 2) return undefined;
  if (name.length === 1) return "a name is '.'";
  return name[1] === 0x2e ? "a name is '..'" : undefined;
}

/** The rule that `target` breaks as the target of a symbolic link, or undefined. */
export function findSymlinkTargetFault(target: Uint8Array): string | undefined {
  if (target.length === 0) return 'a link target is empty';
  if (target.length > SYMLINK_TARGET_BYTES_MAX) {
    return `a link target has ${target.length} bytes; at most ${SYMLINK_TARGET_BYTES_MAX} are allowed`;
  }
  return target.includes(0) ? 'a link target holds a NUL byte' : undefined;
}

/** `total + more`. Throws TreeFormatError when the sum is no safe integer. */
export function addTotal(total: number, more: number): number {
  const sum = total + more;
  if (sum <= INTEGER_MAX) return sum;
  throw new TreeFormatError(`the totals add up to more than ${INTEGER_MAX}`);
}

/** Throws TreeFormatError unless `refCount` children and index `level` may stand in one node. */
export function checkIndexShape(level: number, refCount: number): void {
  if (!Number.isInteger(level) || level < 1 || level > INDEX_LEVEL_MAX) {
    throw new TreeFormatError(`the index has level ${level}; 1 to ${INDEX_LEVEL_MAX} are allowed`);
  }
  if (refCount === 0) throw new TreeFormatError('the index has no children');
  checkChildCount(refCount);
}

/** Throws TreeFormatError if the children are too many for one node. */
export function checkChildCount(count: number): void {
  if (count > CHILDREN_MAX)
    throw new TreeFormatError(`${count} children are too many; at most ${CHILDREN_MAX}`);
}
