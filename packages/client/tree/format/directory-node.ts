/** Directory pages and directory indexes, as docs/tree-format.md lays them out. */
import type { Hash } from '@holdfast/protocol';
import { checkU64, FieldReader, FieldWriter, TREE_HEADER_BYTES } from './field-bytes.ts';
import {
  addTotal,
  checkChildCount,
  checkIndexShape,
  compareNames,
  DIRECTORY_CONTENT_TYPE,
  DIRECTORY_INDEX_CONTENT_TYPE,
  type DirectoryEntry,
  type DirectoryIndex,
  type DirectoryIndexChild,
  type EntryKind,
  findNameFault,
  MTIME_NS_MAX,
  MTIME_NS_MIN,
  type NodeParts,
  SYMLINK_TARGET_BYTES_MAX,
  TreeFormatError,
  type TreeTotals,
} from './tree-format.ts';

const KIND_CODES: Readonly<Record<EntryKind, number>> = { file: 1, directory: 2, symlink: 3 };
const FLAG = { executable: 1, mtime: 2 } as const;
const FLAGS_KNOWN = FLAG.executable | FLAG.mtime;

/** A directory of up to CHILDREN_MAX entries, or a page of one. Throws TreeFormatError unless they are sorted and valid. */
export function encodeDirectory(entries: readonly DirectoryEntry[]): NodeParts {
  checkChildCount(entries.length);
  checkOrder(entries.map(({ name }) => name));
  sumTotals(entries);
  let length = TREE_HEADER_BYTES;
  for (const entry of entries) {
    checkEntry(entry);
    // Kind, flags, name length, bytes.
    length += 1 + 1 + 2 + 8 + entry.name.length;
    if (entry.kind === 'directory') length += 8; // the entry count
    if (entry.mtimeNs !== undefined) length += 8;
  }
  const writer = new FieldWriter(length);
  writer.header(0);
  for (const entry of entries) writeEntry(writer, entry);
  return {
    contentType: DIRECTORY_CONTENT_TYPE,
    refs: entries.map(({ hash }) => hash),
    content: writer.bytes,
  };
}

function writeEntry(writer: FieldWriter, entry: DirectoryEntry): void {
  const { name, kind, bytes, entryCount, isExecutable, mtimeNs } = entry;
  writer.u8(KIND_CODES[kind]);
  writer.u8((isExecutable ? FLAG.executable : 0) | (mtimeNs === undefined ? 0 : FLAG.mtime));
  writer.u16(name.length);
  writer.raw(name);
  writer.u64(bytes);
  if (kind === 'directory') writer.u64(entryCount);
  if (mtimeNs !== undefined) writer.i64(mtimeNs);
}

/** The entries of a directory or page; names are views of its content. Throws TreeFormatError. */
export function parseDirectory(node: NodeParts): DirectoryEntry[] {
  checkContentType(node, DIRECTORY_CONTENT_TYPE);
  checkChildCount(node.refs.length);
  const reader = new FieldReader(node.content);
  const level = reader.header();
  if (level !== 0) throw new TreeFormatError(`a directory has level ${level}; it must be 0`);
  const entries = node.refs.map((hash) => readEntry(reader, hash));
  reader.end();
  checkOrder(entries.map(({ name }) => name));
  sumTotals(entries);
  return entries;
}

function readEntry(reader: FieldReader, hash: Hash): DirectoryEntry {
  const kind = readKind(reader.u8('kind'));
  const flags = reader.u8('flags field');
  if ((flags & ~FLAGS_KNOWN) !== 0) {
    throw new TreeFormatError(`an entry has the unknown flags 0x${flags.toString(16)}`);
  }
  const name = reader.raw(reader.u16('name length'), 'name');
  const bytes = reader.u64('byte total');
  const entryCount = kind === 'directory' ? reader.u64('entry count') : 0;
  const mtimeNs = (flags & FLAG.mtime) === 0 ? undefined : reader.i64('modification time');
  const entry = {
    name,
    kind,
    hash,
    bytes,
    entryCount,
    isExecutable: (flags & FLAG.executable) !== 0,
    mtimeNs,
  };
  checkEntry(entry);
  return entry;
}

function readKind(code: number): EntryKind {
  if (code === KIND_CODES.file) return 'file';
  if (code === KIND_CODES.directory) return 'directory';
  if (code === KIND_CODES.symlink) return 'symlink';
  throw new TreeFormatError(`an entry has the unknown kind ${code}`);
}

function checkEntry({ name, kind, bytes, entryCount, isExecutable, mtimeNs }: DirectoryEntry): void {
  const fault = findNameFault(name);
  if (fault !== undefined) throw new TreeFormatError(fault);
  checkU64(bytes, 'byte total');
  checkU64(entryCount, 'entry count');
  if (kind !== 'directory' && entryCount !== 0) throw new TreeFormatError(`a ${kind} has entries below it`);
  if (kind === 'directory' && entryCount === 0 && bytes !== 0) {
    throw new TreeFormatError('a directory without entries has bytes below it');
  }
  if (kind !== 'file' && isExecutable) throw new TreeFormatError(`a ${kind} is marked executable`);
  if (kind === 'symlink' && (bytes === 0 || bytes > SYMLINK_TARGET_BYTES_MAX)) {
    throw new TreeFormatError(
      `a link target has ${bytes} bytes; 1 to ${SYMLINK_TARGET_BYTES_MAX} are allowed`,
    );
  }
  if (mtimeNs !== undefined && (mtimeNs < MTIME_NS_MIN || mtimeNs > MTIME_NS_MAX)) {
    throw new TreeFormatError('a modification time is no signed 64-bit count of nanoseconds');
  }
}

/** An index over pages or lower indexes of one directory. Throws TreeFormatError unless its children are sorted and valid. */
export function encodeDirectoryIndex({ level, children }: DirectoryIndex): NodeParts {
  checkIndexShape(level, children.length);
  checkOrder(children.map(({ firstName }) => firstName));
  sumTotals(children, 0);
  let length = TREE_HEADER_BYTES;
  for (const child of children) {
    checkIndexChild(child);
    // Name length, bytes, entry count.
    length += 2 + 8 + 8 + child.firstName.length;
  }
  const writer = new FieldWriter(length);
  writer.header(level);
  for (const { firstName, bytes, entryCount } of children) {
    writer.u16(firstName.length);
    writer.raw(firstName);
    writer.u64(bytes);
    writer.u64(entryCount);
  }
  return {
    contentType: DIRECTORY_INDEX_CONTENT_TYPE,
    refs: children.map(({ hash }) => hash),
    content: writer.bytes,
  };
}

/** The children of a directory index; names are views of its content. Throws TreeFormatError. */
export function parseDirectoryIndex(node: NodeParts): DirectoryIndex {
  checkContentType(node, DIRECTORY_INDEX_CONTENT_TYPE);
  const reader = new FieldReader(node.content);
  const level = reader.header();
  checkIndexShape(level, node.refs.length);
  const children = node.refs.map((hash) => {
    const firstName = reader.raw(reader.u16('name length'), 'name');
    const child = {
      hash,
      firstName,
      bytes: reader.u64('byte total'),
      entryCount: reader.u64('entry count'),
    };
    checkIndexChild(child);
    return child;
  });
  reader.end();
  checkOrder(children.map(({ firstName }) => firstName));
  sumTotals(children, 0);
  return { level, children };
}

function checkIndexChild({ firstName, bytes, entryCount }: DirectoryIndexChild): void {
  const fault = findNameFault(firstName);
  if (fault !== undefined) throw new TreeFormatError(fault);
  checkU64(bytes, 'byte total');
  checkU64(entryCount, 'entry count');
  if (entryCount === 0) throw new TreeFormatError('a child of a directory index has no entries');
}

/** Sums up what is below `parts`; `perPart`: 1 counts the entry itself, 0 a page. Throws TreeFormatError for no safe integer. */
export function sumTotals(parts: readonly TreeTotals[], perPart: 0 | 1 = 1): TreeTotals {
  let bytes = 0;
  let entryCount = 0;
  for (const part of parts) {
    bytes = addTotal(bytes, part.bytes);
    entryCount = addTotal(entryCount, part.entryCount + perPart);
  }
  return { bytes, entryCount };
}

function checkContentType({ contentType }: NodeParts, expected: string): void {
  if (contentType !== expected) throw new TreeFormatError(`the node is ${contentType}, not ${expected}`);
}

function checkOrder(names: readonly Uint8Array[]): void {
  for (let index = 1; index < names.length; index += 1) {
    const order = compareNames(names[index - 1] as Uint8Array, names[index] as Uint8Array);
    if (order === 0) throw new TreeFormatError('a name is there twice');
    if (order > 0) throw new TreeFormatError('the names are not sorted by their bytes');
  }
}
