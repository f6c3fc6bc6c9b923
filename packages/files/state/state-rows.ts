/** The rows of a state: its schema, their content, and the checksums that show damage. */

import { bytesToHash, HASH_BYTES, type Hash, hashToBytes } from '@holdfast/protocol';
import { bytesOf } from '../byte-names.ts';
import type { ByteString } from '../byte-string.ts';
import type { DirectoryRow, PendingCommit } from '../push/folder-state.ts';
import { TreeStateLostError } from '../push/state-failure.ts';

/** Of a checksum: the database does not notice a flipped bit, and a wrong total or hash would give another root. */
const SUM_BYTES = 8;

/** `bytes` with a sum over them and `key` at the end. */
export function seal(key: string, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const sealed = new Uint8Array(bytes.length + SUM_BYTES);
  sealed.set(bytes);
  new DataView(sealed.buffer).setBigUint64(bytes.length, sumOf(key, bytes));
  return sealed;
}

/** Opens the value sealed under `key`. Throws TreeStateLostError when it is anything else. */
export function unseal(key: string, sealed: Uint8Array): Uint8Array {
  const bytes = sealed.subarray(0, Math.max(0, sealed.length - SUM_BYTES));
  if (sealed.length >= SUM_BYTES) {
    const view = new DataView(sealed.buffer, sealed.byteOffset, sealed.length);
    if (view.getBigUint64(bytes.length) === sumOf(key, bytes)) return bytes;
  }
  throw new TreeStateLostError('damaged', 'a row has another sum than it was written with');
}

function sumOf(key: string, bytes: Uint8Array): bigint {
  return Bun.hash.xxHash3(bytes, Bun.hash.xxHash3(key));
}

/** Written into the file; a file of another version is made anew. */
export const STATE_VERSION = 3;

interface FinishedDirectory extends Omit<DirectoryRow, 'isNew'> {
  readonly hash: Hash;
}

export const STATE_SCHEMA = `
  CREATE TABLE directories (
    id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name BLOB NOT NULL,
    summary BLOB, UNIQUE (parent, name)
  );
  CREATE TABLE pages (
    directory INTEGER NOT NULL, page INTEGER NOT NULL, entries BLOB NOT NULL, PRIMARY KEY (directory, page)
  );
  CREATE TABLE files (
    directory INTEGER NOT NULL, name BLOB NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (directory, name)
  );
  CREATE TABLE nodes (
    directory INTEGER NOT NULL, name BLOB NOT NULL, hash BLOB NOT NULL, bytes BLOB NOT NULL,
    PRIMARY KEY (directory, name, hash)
  );
  CREATE TABLE commits (scope TEXT PRIMARY KEY, pending BLOB NOT NULL);
  PRAGMA user_version = ${STATE_VERSION};
`;

/** The place of a row, which its sum covers besides its bytes. A staged page is the page that takes its place. */
export const pageKey = (directory: number, page: number): string => `page ${page} of ${Math.abs(directory)}`;
export const fileKey = (directory: number, name: ByteString): string => `file of ${directory}: ${name}`;
const directoryKey = (id: number): string => `directory ${id}`;

export const packName = (name: ByteString): Uint8Array<ArrayBuffer> =>
  bytesOf(name) as Uint8Array<ArrayBuffer>;
export const packHash = (hash: Hash): Uint8Array<ArrayBuffer> => hashToBytes(hash) as Uint8Array<ArrayBuffer>;

const SUMMARY_BYTES = HASH_BYTES + 8 + 8;

/** A finished directory: its hash, then its bytes and entries as float64. */
export function packSummary({ id, hash, bytes, entryCount }: FinishedDirectory): Uint8Array<ArrayBuffer> {
  const packed = new Uint8Array(SUMMARY_BYTES);
  packed.set(hashToBytes(hash));
  const view = new DataView(packed.buffer);
  view.setFloat64(HASH_BYTES, bytes);
  view.setFloat64(HASH_BYTES + 8, entryCount);
  return seal(directoryKey(id), packed);
}

/** Throws TreeStateLostError. */
export function unpackSummary(id: number, summary: Uint8Array): FinishedDirectory {
  const packed = unseal(directoryKey(id), summary);
  const view = new DataView(packed.buffer, packed.byteOffset, packed.length);
  return {
    id,
    hash: bytesToHash(packed.subarray(0, HASH_BYTES)),
    bytes: view.getFloat64(HASH_BYTES),
    entryCount: view.getFloat64(HASH_BYTES + 8),
  };
}

export function packCommit(scope: string, { requestId, hash }: PendingCommit): Uint8Array<ArrayBuffer> {
  return seal(scope, new TextEncoder().encode(JSON.stringify({ requestId, hash })));
}

/** Throws TreeStateLostError. */
export function unpackCommit(scope: string, pending: Uint8Array): PendingCommit {
  const text = new TextDecoder().decode(unseal(scope, pending));
  const found = /^\{"requestId":"([\x21\x23-\x5b\x5d-\x7e]{1,256})","hash":"([0-9a-f]{64})"\}$/.exec(text);
  if (found === null) throw new TreeStateLostError('damaged', 'an open commit has another form');
  return { requestId: found[1] as string, hash: found[2] as Hash };
}
