/** Edits as a caller gives them, and their check: whatever could never be done is refused before anything is sent. */
import type { Hash } from '@holdfast/protocol';
import {
  type CheckedCall,
  checkHash,
  checkInteger,
  checkObject,
  describeValue,
  invalidArgument,
  isBlob,
  isBytes,
} from '../../arguments.ts';
import {
  type EntryKind,
  findNameFault,
  findSymlinkTargetFault,
  MTIME_NS_MAX,
  MTIME_NS_MIN,
} from '../format/tree-format.ts';
import { EditError } from './edit-error.ts';

/** Names joined by single slashes, as text or as raw bytes. */
export type EditPath = string | Uint8Array;

/** A node of a tree that the Space has. */
export interface StoredItem {
  readonly kind: EntryKind;
  readonly hash: Hash;
  /** as the entry of a directory says it */
  readonly bytes: number;
  readonly entryCount: number;
}

interface SetAt {
  readonly op: 'set';
  readonly path: EditPath;
  /** true: whatever is there goes. false: nothing may be there. When left out a file or link is replaced, and a folder is not. */
  readonly replace?: boolean | undefined;
}

interface OfFile {
  /** `kept`: as the file was that is replaced. false when left out. */
  readonly executable?: boolean | 'kept' | undefined;
}

export type SetFile = SetAt &
  OfFile & {
    /** A stream is read once, and cut on the way. */
    readonly bytes: Uint8Array | ReadableStream<Uint8Array> | Blob;
  };

/** One change of a tree. Times are not kept by what is set: `time` gives them. */
export type TreeEdit =
  | SetFile
  | (SetAt & { /** of a symbolic link */ readonly target: EditPath })
  | (SetAt & { readonly directory: true })
  | (SetAt & OfFile & { readonly node: StoredItem })
  | { readonly op: 'remove'; readonly path: EditPath }
  /** `replace`: whatever is at `to` goes; else nothing may be there. */
  | {
      readonly op: 'move' | 'copy';
      readonly from: EditPath;
      readonly to: EditPath;
      readonly replace?: boolean | undefined;
    }
  | { readonly op: 'executable'; readonly path: EditPath; readonly executable: boolean }
  /** `mtimeNs`: ns since the epoch; undefined takes the time away. */
  | { readonly op: 'time'; readonly path: EditPath; readonly mtimeNs: bigint | undefined };

const ENCODER = new TextEncoder();

/** Bytes of one name of a path that is edited: no file system takes fewer. */
export const EDITED_NAME_BYTES_MAX = 255;

/** The names of a path. Throws EditError INVALID_PATH. */
export function parseEditPath(path: EditPath, index: number): readonly Uint8Array[] {
  const fail = (reason: string): EditError => new EditError('INVALID_PATH', reason, { path, index });
  if (typeof path === 'string' && !path.isWellFormed())
    throw fail('the path has half of a surrogate pair, which UTF-8 cannot hold');
  // Of a caller's bytes a copy, because names are kept.
  const bytes = typeof path === 'string' ? ENCODER.encode(path) : new Uint8Array(path);
  const names: Uint8Array[] = [];
  for (let start = 0; start <= bytes.length; ) {
    const slash = bytes.indexOf(0x2f, start); // a slash
    const end = slash === -1 ? bytes.length : slash;
    const name = bytes.subarray(start, end);
    const fault = findNameFault(name);
    if (fault !== undefined) throw fail(`this is no path: ${fault}`);
    if (name.length > EDITED_NAME_BYTES_MAX) {
      throw fail(
        `this is no path: a name has ${name.length} bytes; at most ${EDITED_NAME_BYTES_MAX} are allowed`,
      );
    }
    names.push(name);
    start = end + 1;
  }
  return names;
}

/** Throws EditError INVALID_PATH, and CasError INVALID_ARGUMENT for what is no edit. */
export function checkEdits(call: CheckedCall, edits: readonly TreeEdit[]): void {
  if (!Array.isArray(edits))
    throw invalidArgument(call, `edits must be an array; it is ${describeValue(edits)}`);
  for (const [index, edit] of edits.entries())
    checkEdit({ ...call, name: `${call.name}, edit ${index}` }, edit, index);
}

const OPS: readonly string[] = [
  'set',
  'remove',
  'move',
  'copy',
  'executable',
  'time',
] satisfies TreeEdit['op'][];

function checkEdit(call: CheckedCall, edit: TreeEdit, index: number): void {
  checkObject(call, 'the edit', edit);
  const { op } = edit;
  if (!OPS.includes(op))
    throw invalidArgument(call, `op must be one of ${OPS.join(', ')}; it is ${describeValue(op)}`);
  const paths = 'from' in edit ? { from: edit.from, to: edit.to } : { path: edit.path };
  for (const [what, path] of Object.entries(paths)) {
    if (typeof path !== 'string' && !isBytes(path)) {
      throw invalidArgument(call, `${what} must be a string or a Uint8Array; it is ${describeValue(path)}`);
    }
    parseEditPath(path, index);
  }
  if (op === 'set') checkSet(call, edit);
  else if (op === 'executable') checkFlag(call, 'executable', edit.executable);
  else if (op === 'time') checkTime(call, edit.mtimeNs);
}

function checkSet(call: CheckedCall, edit: TreeEdit & { readonly op: 'set' }): void {
  const given = ['bytes', 'target', 'directory', 'node'].filter((field) => field in edit);
  if (given.length !== 1) {
    throw invalidArgument(call, 'a set has one of bytes, target, directory and node');
  }
  if ('bytes' in edit) {
    const isContent = isBytes(edit.bytes) || isBlob(edit.bytes) || edit.bytes instanceof ReadableStream;
    const found = describeValue(edit.bytes);
    if (!isContent)
      throw invalidArgument(call, `bytes must be a Uint8Array, a ReadableStream or a Blob; it is ${found}`);
  } else if ('target' in edit) {
    if (typeof edit.target !== 'string' && !isBytes(edit.target)) {
      throw invalidArgument(
        call,
        `target must be a string or a Uint8Array; it is ${describeValue(edit.target)}`,
      );
    }
    const fault = findSymlinkTargetFault(toRawText(edit.target));
    if (fault !== undefined) throw invalidArgument(call, fault);
  } else if ('directory' in edit) {
    if (edit.directory !== true) throw invalidArgument(call, 'directory must be true');
  } else {
    checkObject(call, 'node', edit.node);
    const { kind, hash, bytes, entryCount } = edit.node;
    if (!['file', 'directory', 'symlink'].includes(kind)) {
      throw invalidArgument(call, 'the kind of a node must be file, directory or symlink');
    }
    checkHash(call, hash);
    checkInteger(call, 'bytes of a node', bytes, { min: 0 });
    checkInteger(call, 'entryCount of a node', entryCount, { min: 0 });
  }
  if ('executable' in edit && edit.executable !== 'kept')
    checkFlag(call, 'executable', edit.executable ?? false);
  checkFlag(call, 'replace', edit.replace ?? false);
}

function checkFlag(call: CheckedCall, what: string, value: unknown): void {
  if (typeof value !== 'boolean') throw invalidArgument(call, `${what} must be true or false`);
}

function checkTime(call: CheckedCall, mtimeNs: unknown): void {
  if (mtimeNs === undefined) return;
  if (typeof mtimeNs === 'bigint' && mtimeNs >= MTIME_NS_MIN && mtimeNs <= MTIME_NS_MAX) return;
  throw invalidArgument(call, 'mtimeNs must be a bigint, a signed 64-bit count of nanoseconds');
}

export function toRawText(text: EditPath): Uint8Array {
  return typeof text === 'string' ? new TextEncoder().encode(text) : text;
}
