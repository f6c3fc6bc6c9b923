/**
 * Attributes of the entries of a folder, packed into pages of a few hundred: enough to know an entry again without
 * reading it. Pages of the same entries are the same bytes, so comparing pages tells whether anything changed.
 */
import { bytesToHash, type Hash, writeHash } from '@holdfast/protocol';
import { type ByteString, byteStringOf, bytesOf } from '../byte-names.ts';

export const PAGE_ENTRIES_MAX = 256;

type SeenKind = 'file' | 'directory' | 'symlink';
const KINDS: readonly SeenKind[] = ['file', 'directory', 'symlink'];

/** How a file or link is known again. Instants are ms since the epoch as the file system gives them. */
export interface Fingerprint {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
  readonly inode: number;
}

export interface SeenEntry {
  readonly name: ByteString;
  readonly kind: SeenKind;
  readonly isExecutable: boolean;
  /** a file of more than one chunk: the state holds its index nodes */
  readonly isIndexed: boolean;
  /** false: it was changed so shortly before it was read that a further change might not show */
  readonly isSettled: boolean;
  /** all zero for a directory */
  readonly fingerprint: Fingerprint;
  readonly hash: Hash;
  readonly bytes: number;
  /** below a directory */
  readonly entryCount: number;
  /** recorded only when the tree records times */
  readonly mtimeNs: bigint | undefined;
}

/** kind and flags, name length, four fingerprint numbers, bytes, entry count, mtime, hash */
const FIXED_BYTES = 1 + 2 + 4 * 8 + 8 + 8 + 8 + 32;
/** Bits beside the two of the kind. */
const FLAG = { executable: 4, settled: 8, mtime: 16, indexed: 32 } as const;

export function packPage(entries: readonly SeenEntry[]): Uint8Array {
  const length = entries.reduce((total, { name }) => total + FIXED_BYTES + name.length, 0);
  const bytes = new Uint8Array(length);
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const entry of entries) {
    const { name, fingerprint } = entry;
    bytes[at] =
      KINDS.indexOf(entry.kind) |
      (entry.isExecutable ? FLAG.executable : 0) |
      (entry.isIndexed ? FLAG.indexed : 0) |
      (entry.isSettled ? FLAG.settled : 0) |
      (entry.mtimeNs === undefined ? 0 : FLAG.mtime);
    view.setUint16(at + 1, name.length, true);
    view.setFloat64(at + 3, fingerprint.size, true);
    view.setFloat64(at + 11, fingerprint.mtimeMs, true);
    view.setFloat64(at + 19, fingerprint.ctimeMs, true);
    view.setFloat64(at + 27, fingerprint.inode, true);
    view.setFloat64(at + 35, entry.bytes, true);
    view.setFloat64(at + 43, entry.entryCount, true);
    view.setBigInt64(at + 51, entry.mtimeNs ?? 0n, true);
    writeHash(entry.hash, bytes, at + 59);
    bytes.set(bytesOf(name), at + FIXED_BYTES);
    at += FIXED_BYTES + name.length;
  }
  return bytes;
}

/** Throws RangeError when the bytes are no page. */
export function unpackPage(bytes: Uint8Array): SeenEntry[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const entries: SeenEntry[] = [];
  for (let at = 0; at < bytes.length; ) {
    const head = view.getUint8(at);
    const nameLength = view.getUint16(at + 1, true);
    const end = at + FIXED_BYTES + nameLength;
    const kind = KINDS[head & 3];
    if (kind === undefined || end > bytes.length) throw new RangeError('the page is damaged');
    entries.push({
      name: byteStringOf(bytes.subarray(at + FIXED_BYTES, end)),
      kind,
      isExecutable: (head & FLAG.executable) !== 0,
      isIndexed: (head & FLAG.indexed) !== 0,
      isSettled: (head & FLAG.settled) !== 0,
      fingerprint: {
        size: view.getFloat64(at + 3, true),
        mtimeMs: view.getFloat64(at + 11, true),
        ctimeMs: view.getFloat64(at + 19, true),
        inode: view.getFloat64(at + 27, true),
      },
      bytes: view.getFloat64(at + 35, true),
      entryCount: view.getFloat64(at + 43, true),
      mtimeNs: (head & FLAG.mtime) === 0 ? undefined : view.getBigInt64(at + 51, true),
      hash: bytesToHash(bytes.subarray(at + 59, at + 59 + 32)),
    });
    at = end;
  }
  return entries;
}

export function isSameFingerprint(a: Fingerprint, b: Fingerprint): boolean {
  return a.size === b.size && a.mtimeMs === b.mtimeMs && a.ctimeMs === b.ctimeMs && a.inode === b.inode;
}
