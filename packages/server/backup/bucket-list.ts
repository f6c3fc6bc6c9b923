/**
 * The layout of a bucket's backup. The manifest names the list, and the list names the files. Everything that a list names is durable
 * before the manifest is. The name of a file has the digest of its bytes, so an interrupted backup goes on where it was.
 *
 *     BUCKET                                     the manifest
 *     BUCKET.former                              the one before; of a first backup the same
 *     lists/SEQUENCE.bucket                      the objects, by the parts of their keys
 *     objects/<part>/<Space>/<generation>.<sha256>
 *     incoming/                                  objects that are being read
 */

import { closeSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { findJson } from '@holdfast/protocol';
import { isCount, isDigest, isTime, type Shape, takeShape } from '../core/closed-shape.ts';
import type { HeldFolder } from '../deployment/held-folder.ts';
import { ServeError } from '../errors.ts';
import { replaceDurably } from './durable-files.ts';
import { MANIFEST_BYTES_MAX } from './manifest.ts';

const FORMAT = 1;
const MANIFEST = 'BUCKET';
const FORMER = 'BUCKET.former';
export const LISTS = 'lists';
export const INCOMING = 'incoming';
const PIECE_BYTES = 256 * 1024;

/** Keys are partitioned. Parts are processed in turn, so that memory does not grow with the bucket. */
export const PARTS: readonly string[] = Array.from({ length: 256 }, (_, part) =>
  part.toString(16).padStart(2, '0'),
);

export interface BucketEntry {
  /** part/Space/generation */
  readonly path: string;
  /** hex */
  readonly sha256: string;
  readonly size: number;
  /** ms when a backup first found it missing in the bucket; 0 while it exists */
  readonly goneAt: number;
}

export interface BucketManifest {
  readonly format: number;
  readonly sequence: number;
  /** of the bucket's deployment */
  readonly storeId: string;
  /** ms */
  readonly createdAt: number;
  readonly nodes: number;
  readonly bytes: number;
  /** of the list, hex */
  readonly sha256: string;
}

export class BucketFolder {
  readonly folder: HeldFolder;

  /** The caller closes the folder. */
  constructor(folder: HeldFolder) {
    this.folder = folder;
  }

  get root(): string {
    return this.folder.path;
  }

  listName(sequence: number): string {
    return `${LISTS}/${sequence}.bucket`;
  }

  folderOf(part: string): string {
    return `objects/${part}`;
  }

  fileOf({ path, sha256 }: Pick<BucketEntry, 'path' | 'sha256'>): string {
    return `objects/${path}.${sha256}`;
  }

  /** undefined if no backup of a bucket was ever finished here. @throws ServeError */
  findManifest(): BucketManifest | undefined {
    const bytes = this.folder.read(MANIFEST, MANIFEST_BYTES_MAX);
    const manifest = bytes && parseManifest(bytes);
    if (bytes === undefined || manifest !== undefined) return manifest;
    const [path, former] = [join(this.root, MANIFEST), join(this.root, FORMER)];
    throw new ServeError(
      `${path} is damaged, or of a newer Holdfast: use that version, or a new folder; the manifest before it is ${former}: to take that one, move it to ${path} and run the same command again`,
    );
  }

  /** The manifest before this one; undefined if absent or damaged. */
  findFormerManifest(): BucketManifest | undefined {
    const bytes = this.folder.read(FORMER, MANIFEST_BYTES_MAX);
    return bytes && parseManifest(bytes);
  }

  /** The manifest is durable when it returns. The folder keeps the former one. */
  replaceManifest(manifest: BucketManifest): void {
    const bytes = Buffer.from(`${JSON.stringify(manifest)}\n`);
    replaceDurably(this.folder, FORMER, this.folder.read(MANIFEST, MANIFEST_BYTES_MAX) ?? bytes);
    replaceDurably(this.folder, MANIFEST, bytes);
  }
}

const STORE_ID = /^[0-9A-Za-z-]{1,64}$/;
const SHAPE: Shape<BucketManifest> = {
  format: (value) => value === FORMAT,
  sequence: (value) => isCount(value) && value >= 1,
  storeId: (value) => typeof value === 'string' && STORE_ID.test(value),
  createdAt: isTime,
  nodes: isCount,
  bytes: isCount,
  sha256: isDigest,
};

function parseManifest(bytes: Uint8Array): BucketManifest | undefined {
  return takeShape<BucketManifest>(findJson(Buffer.from(bytes).toString()), SHAPE);
}

export const makeBucketManifest = (parts: Omit<BucketManifest, 'format'>): BucketManifest => ({
  format: FORMAT,
  ...parts,
});

export const formatEntry = ({ path, sha256, size, goneAt }: BucketEntry): string =>
  `${path} ${sha256} ${size} ${goneAt}\n`;

const ENTRY = /^([0-9a-f]{2}\/[0-9a-f]{32}\/[0-9a-f]{32}) ([0-9a-f]{64}) (\d{1,16}) (\d{1,16})$/;

const FILE_NAME = /^([0-9a-f]{32})\.([0-9a-f]{64})$/;
const SPACE_NAME = /^[0-9a-f]{32}$/;

export function findPartFiles(target: BucketFolder, part: string): BucketEntry[] {
  const { folder } = target;
  const spaces = folder.list(target.folderOf(part)).filter((name) => SPACE_NAME.test(name));
  return spaces.flatMap((space) =>
    folder.list(`${target.folderOf(part)}/${space}`).flatMap((name) => {
      const [, generation, sha256] = FILE_NAME.exec(name) ?? [];
      if (generation === undefined || sha256 === undefined) return [];
      const size = folder.sizeOf(`${target.folderOf(part)}/${space}/${name}`);
      return size === undefined ? [] : [{ path: `${part}/${space}/${generation}`, sha256, size, goneAt: 0 }];
    }),
  );
}

/** Yields the entries of each part in order. If the list is missing or damaged, yields everything in the folder. */
export function readEntries(
  target: BucketFolder,
  { sequence, sha256 }: BucketManifest,
): { readonly isListed: boolean; readonly take: (part: string) => readonly BucketEntry[] } {
  if (!isListWhole(target, sequence, sha256)) {
    return { isListed: false, take: (part) => findPartFiles(target, part) };
  }
  const reader = new BucketListReader(target, sequence);
  return { isListed: true, take: (part) => reader.take(part) };
}

function isListWhole(target: BucketFolder, sequence: number, sha256: string): boolean {
  let reader: BucketListReader | undefined;
  try {
    reader = new BucketListReader(target, sequence);
    for (const part of PARTS) reader.take(part);
    return reader.digest() === sha256;
  } catch (error) {
    if (error instanceof ServeError) return false;
    throw error;
  } finally {
    reader?.close();
  }
}

/** Reads a list part by part in order. The descriptor closes with the process or by `close`. */
class BucketListReader {
  readonly #fd: number;
  readonly #piece = Buffer.alloc(PIECE_BYTES);
  readonly #hasher = new Bun.CryptoHasher('sha256');
  #rest = '';
  #lines: string[] = [];
  #isAtEnd = false;
  #ahead: BucketEntry | undefined;

  /** @throws ServeError */
  constructor(target: BucketFolder, sequence: number) {
    const name = target.listName(sequence);
    const fd = target.folder.openToRead(name);
    if (fd === undefined) {
      throw new ServeError(
        `the list ${join(target.root, name)} is missing: make a new backup in another folder`,
      );
    }
    this.#fd = fd;
  }

  close(): void {
    closeSync(this.#fd);
  }

  /** The entries of the part; skips those of earlier parts. @throws ServeError */
  take(part: string): readonly BucketEntry[] {
    const entries: BucketEntry[] = [];
    for (;;) {
      this.#ahead ??= this.#read();
      if (this.#ahead === undefined || this.#ahead.path.slice(0, 2) > part) return entries;
      if (this.#ahead.path.startsWith(part)) entries.push(this.#ahead);
      this.#ahead = undefined;
    }
  }

  digest(): string {
    return this.#hasher.digest('hex');
  }

  #read(): BucketEntry | undefined {
    const line = this.#nextLine();
    if (line === undefined) return undefined;
    const [, path, sha256, size, goneAt] = ENTRY.exec(line) ?? [];
    if (path === undefined || sha256 === undefined) {
      throw new ServeError('the list of the backup is damaged: make a new backup in another folder');
    }
    this.#hasher.update(`${line}\n`);
    return { path, sha256, size: Number(size), goneAt: Number(goneAt) };
  }

  #nextLine(): string | undefined {
    while (this.#lines.length === 0 && !this.#isAtEnd) {
      const bytes = readSync(this.#fd, this.#piece, 0, PIECE_BYTES, null);
      this.#isAtEnd = bytes === 0;
      const lines = (this.#rest + this.#piece.toString('latin1', 0, bytes)).split('\n');
      const rest = lines.pop() ?? '';
      if (this.#isAtEnd && rest !== '') lines.push(rest);
      // A line of a list is shorter than this.
      this.#rest = this.#isAtEnd ? '' : rest.slice(0, 256);
      this.#lines = lines.reverse();
    }
    return this.#lines.pop();
  }
}
