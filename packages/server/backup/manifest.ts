/** The manifest of a data folder's backup. Any content not in the exact form that Holdfast writes is rejected. */

import { createHash } from 'node:crypto';
import { findJson, isRecord } from '@holdfast/protocol';
import { isCount, isDigest, isTime, type Shape, takeShape } from '../core/closed-shape.ts';
import { ServeError } from '../errors.ts';

const FORMAT = 1;
/** It is larger than any manifest. */
export const MANIFEST_BYTES_MAX = 1024 * 1024;
/** Database files in a data folder, and their folder names in a backup. */
const DATABASE_NAMES: readonly string[] = ['holdfast.db', 'registry.db'];
const [ROWS_NAME] = DATABASE_NAMES;
const DEPLOYMENT = /^[0-9A-Za-z-]{1,64}$/;
const SEED = /^[0-9a-f]{16}$/;

/** The pages written by one backup. */
export interface PackEntry {
  readonly sequence: number;
  readonly pages: number;
  /** how many of them are current */
  readonly live: number;
}

interface FileEntry {
  readonly sequence: number;
  readonly sha256: string;
}

export interface DatabaseEntry {
  readonly name: string;
  readonly pageBytes: number;
  readonly pageCount: number;
  readonly map: FileEntry;
  readonly packs: readonly PackEntry[];
}

interface ObjectsEntry {
  readonly count: number;
  readonly bytes: number;
  readonly list: FileEntry;
}

export interface Manifest {
  readonly format: number;
  /** The deployment's identity; undefined if it was never served or an earlier version made the backup. */
  readonly deployment?: string | undefined;
  /** incremented by each backup into the folder */
  readonly sequence: number;
  /** ms */
  readonly createdAt: number;
  readonly nodes: number;
  /** bytes that a restore writes */
  readonly bytes: number;
  /** seed of the page checksums, hex: tenants choose the content of pages and must not know it */
  readonly seed: string;
  readonly databases: readonly DatabaseEntry[];
  /** null if the bytes are in a bucket */
  readonly objects: ObjectsEntry | null;
}

export const makeManifest = (parts: Omit<Manifest, 'format'>): Manifest => ({ format: FORMAT, ...parts });

export const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export function encodeManifest(manifest: Manifest): Buffer {
  const sha256 = digestOf(Buffer.from(JSON.stringify(manifest)));
  return Buffer.from(`${JSON.stringify({ manifest, sha256 })}\n`);
}

/** undefined if damaged. @throws ServeError if a newer version wrote it */
export function parseManifest(bytes: Uint8Array, path: string): Manifest | undefined {
  const parsed = findJson(Buffer.from(bytes).toString());
  const { manifest, sha256 } = isRecord(parsed) ? parsed : {};
  if (!isRecord(manifest)) return undefined;
  if (digestOf(Buffer.from(JSON.stringify(manifest))) !== sha256) return undefined;
  const { format } = manifest;
  if (isCount(format) && format > FORMAT) {
    throw new ServeError(
      `${path} was written by a newer Holdfast (format ${format}): use that version, or another folder`,
    );
  }
  return takeShape<Manifest>(manifest, MANIFEST);
}

// A sequence has 32 bits in a page map.
const isSequence = (value: unknown): boolean => isCount(value) && value >= 1 && value <= 2 ** 32 - 1;

const FILE: Shape<FileEntry> = { sequence: isSequence, sha256: isDigest };
const PACK: Shape<PackEntry> = { sequence: isSequence, pages: isCount, live: isCount };
const DATABASE: Shape<DatabaseEntry> = {
  name: (value) => DATABASE_NAMES.some((name) => name === value),
  pageBytes: isPageBytes,
  pageCount: (value) => isCount(value) && value <= 2 ** 32 - 2,
  map: (value) => takeShape(value, FILE) !== undefined,
  packs: (value) => isListOf(value, PACK, 1000),
};
const OBJECTS: Shape<ObjectsEntry> = {
  count: isCount,
  bytes: isCount,
  list: (value) => takeShape(value, FILE) !== undefined,
};
const MANIFEST: Shape<Manifest> = {
  format: (value) => value === FORMAT,
  deployment: (value) => value === undefined || (typeof value === 'string' && DEPLOYMENT.test(value)),
  sequence: isSequence,
  createdAt: isTime,
  nodes: isCount,
  bytes: isCount,
  seed: (value) => typeof value === 'string' && SEED.test(value),
  databases: areDatabases,
  objects: (value) => value === null || takeShape(value, OBJECTS) !== undefined,
};

function isPageBytes(value: unknown): boolean {
  // SQLite has pages of 512 to 65,536 bytes.
  const isInRange = isCount(value) && value >= 512 && value <= 65_536;
  return isInRange && Number.isInteger(Math.log2(value));
}

function isListOf<T extends object>(value: unknown, shape: Shape<T>, countMax: number): value is T[] {
  return (
    Array.isArray(value) &&
    value.length <= countMax &&
    value.every((each) => takeShape(each, shape) !== undefined)
  );
}

function areDatabases(value: unknown): boolean {
  if (!isListOf(value, DATABASE, DATABASE_NAMES.length)) return false;
  const names = value.map(({ name }) => name);
  return names[0] === ROWS_NAME && new Set(names).size === names.length;
}
