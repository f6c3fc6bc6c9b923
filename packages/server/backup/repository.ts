/**
 * The layout of a backup's folder. Everything that the manifest names is durable before the manifest is, and a new manifest replaces
 * the former in one step. So an interrupted backup leaves the former one valid. Files that the former manifest needs stay until the next
 * backup, so that a damaged BACKUP costs one backup and not all.
 *
 *     BACKUP                            the manifest
 *     BACKUP.former                     the one before; of a first backup the same
 *     UNFINISHED                        a backup is being made, or was interrupted
 *     databases/NAME/SEQUENCE.pages     the pages that changed until that backup
 *     databases/NAME/SEQUENCE.map       where each page of the database lies
 *     lists/NAME.SEQUENCE.map           the same again
 *     lists/SEQUENCE.objects            the objects, with their sizes
 *     objects/<two hex digits>/<generation>
 *     incoming/                         objects that are being copied
 */

import { closeSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { Generation } from '../core/model.ts';
import type { HeldFolder } from '../deployment/held-folder.ts';
import { ServeError } from '../errors.ts';
import { replaceDurably, writeDurably } from './durable-files.ts';
import {
  type DatabaseEntry,
  digestOf,
  encodeManifest,
  MANIFEST_BYTES_MAX,
  type Manifest,
  parseManifest,
} from './manifest.ts';
import { PAGE_ENTRY_BYTES, PageMap } from './page-map.ts';

const GENERATION_BYTES = 16;
const ENTRY_BYTES = 24;

/** generation → bytes */
export type ObjectSizes = ReadonlyMap<Generation, number>;

/** The objects of a backup and their sizes in one file. Each entry has 24 bytes: generation and u64 size, little-endian. */
export function encodeObjectList(sizes: ObjectSizes): Buffer {
  const bytes = Buffer.alloc(sizes.size * ENTRY_BYTES);
  let at = 0;
  for (const [generation, size] of sizes) {
    bytes.write(generation, at, 'hex');
    bytes.writeBigUInt64LE(BigInt(size), at + GENERATION_BYTES);
    at += ENTRY_BYTES;
  }
  return bytes;
}

function decodeObjectList(bytes: Uint8Array): Map<Generation, number> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const sizes = new Map<Generation, number>();
  for (let at = 0; at + ENTRY_BYTES <= buffer.length; at += ENTRY_BYTES) {
    const generation = buffer.toString('hex', at, at + GENERATION_BYTES);
    sizes.set(generation, Number(buffer.readBigUInt64LE(at + GENERATION_BYTES)));
  }
  return sizes;
}

const MANIFEST = 'BACKUP';
const FORMER = 'BACKUP.former';
const UNFINISHED = 'UNFINISHED';
export const INCOMING = 'incoming';
const LISTS = 'lists';
const OWN_FILE = /^(?:(?:holdfast|registry)\.db\.)?\d+\.(?:pages|map|objects)$/;

const folderOf = (database: string): string => `databases/${database}`;
const mapOf = (database: string, sequence: number): string => `${folderOf(database)}/${sequence}.map`;
const mapCopyOf = (database: string, sequence: number): string => `${LISTS}/${database}.${sequence}.map`;
const listOf = (sequence: number): string => `${LISTS}/${sequence}.objects`;

export class Repository {
  readonly folder: HeldFolder;

  /** The caller closes the folder. */
  constructor(folder: HeldFolder) {
    this.folder = folder;
  }

  get root(): string {
    return this.folder.path;
  }

  get isUnfinished(): boolean {
    return this.folder.look(UNFINISHED) !== undefined;
  }

  packName(database: string, sequence: number): string {
    return `${folderOf(database)}/${sequence}.pages`;
  }

  /** undefined if no backup was ever finished here. @throws ServeError if the manifest is damaged or of a newer version */
  findManifest(): Manifest | undefined {
    const bytes = this.folder.read(MANIFEST, MANIFEST_BYTES_MAX);
    if (bytes === undefined) return undefined;
    const path = join(this.root, MANIFEST);
    const manifest = parseManifest(bytes, path);
    if (manifest !== undefined) return manifest;
    throw new ServeError(
      `the list ${path} of the backup is damaged, and nothing was changed: ${this.adviseFormer()}`,
    );
  }

  /** The former manifest, for the files that it needs; undefined if absent or damaged. */
  findFormerManifest(): Manifest | undefined {
    try {
      const bytes = this.folder.read(FORMER, MANIFEST_BYTES_MAX);
      return bytes && parseManifest(bytes, FORMER);
    } catch (error) {
      if (error instanceof ServeError) return undefined;
      throw error;
    }
  }

  /** Advice if this backup cannot be used. */
  adviseFormer(): string {
    const [former, path] = [join(this.root, FORMER), join(this.root, MANIFEST)];
    if (this.findFormerManifest() === undefined) return 'make a new backup in another folder';
    return `to take the former backup, run mv ${quote(former)} ${quote(path)} and then the same command again`;
  }

  /** @throws ServeError if the folder holds no backup */
  getManifest(): Manifest {
    const manifest = this.findManifest();
    if (manifest !== undefined) return manifest;
    const advice = this.findFormerManifest() === undefined ? 'make one there first' : this.adviseFormer();
    throw new ServeError(`${this.root} holds no finished backup: check the path, or ${advice}`);
  }

  /** The manifest is durable when it returns. The folder keeps the former one. */
  replaceManifest(manifest: Manifest): void {
    const former = this.folder.read(MANIFEST, MANIFEST_BYTES_MAX);
    replaceDurably(this.folder, FORMER, former ?? encodeManifest(manifest));
    replaceDurably(this.folder, MANIFEST, encodeManifest(manifest));
    // A backup is complete only if its manifest can be read back.
    if (this.findManifest()?.sequence === manifest.sequence) return;
    throw new ServeError(`${join(this.root, MANIFEST)} does not hold what was written: check the disk`);
  }

  /** Whether the backup before this one was interrupted. */
  noteUnfinished(): boolean {
    const isThere = this.isUnfinished;
    if (!isThere) writeDurably(this.folder, UNFINISHED, new Uint8Array());
    this.folder.sync();
    return isThere;
  }

  noteFinished(): void {
    this.folder.remove(UNFINISHED);
  }

  makeFolders(databases: readonly string[]): void {
    this.folder.makeFolders([LISTS, ...databases.map(folderOf)]);
  }

  writeMap(database: string, sequence: number, { bytes }: PageMap): { sequence: number; sha256: string } {
    for (const name of [mapOf(database, sequence), mapCopyOf(database, sequence)]) {
      writeDurably(this.folder, name, bytes);
    }
    for (const name of [folderOf(database), LISTS]) this.folder.sync(name);
    return { sequence, sha256: digestOf(bytes) };
  }

  /** The map and its bad files. If neither is intact, the map is unproven: a damaged one of the right length, or undefined. */
  readMap({ name, pageCount, map }: DatabaseEntry): {
    readonly map: PageMap | undefined;
    readonly isProven: boolean;
    readonly damaged: readonly string[];
  } {
    const damaged: string[] = [];
    const found: Uint8Array[] = [];
    for (const file of [mapOf(name, map.sequence), mapCopyOf(name, map.sequence)]) {
      const bytes = this.#tryRead(file, pageCount * PAGE_ENTRY_BYTES);
      if (bytes !== undefined && digestOf(bytes) === map.sha256) {
        return { map: new PageMap(bytes), isProven: true, damaged };
      }
      damaged.push(`${join(this.root, file)} is gone or not as it was written`);
      if (bytes?.length === pageCount * PAGE_ENTRY_BYTES) found.push(bytes);
    }
    return { map: found[0] && new PageMap(found[0]), isProven: false, damaged };
  }

  /** The map, if one of its files is intact. */
  findMap(entry: DatabaseEntry): PageMap | undefined {
    const { map, isProven } = this.readMap(entry);
    return isProven ? map : undefined;
  }

  writeList(sequence: number, bytes: Uint8Array): { sequence: number; sha256: string } {
    writeDurably(this.folder, listOf(sequence), bytes);
    this.folder.sync(LISTS);
    return { sequence, sha256: digestOf(bytes) };
  }

  /** undefined if missing or damaged. */
  findList({ objects }: Manifest): ObjectSizes | undefined {
    if (objects === null) return new Map();
    // An object takes 24 bytes, so this is far beyond any folder.
    const bytes = this.#tryRead(listOf(objects.list.sequence), 2 ** 31);
    return bytes !== undefined && digestOf(bytes) === objects.list.sha256
      ? decodeObjectList(bytes)
      : undefined;
  }

  listPath(sequence: number): string {
    return join(this.root, listOf(sequence));
  }

  removeOthers(manifests: readonly Manifest[]): void {
    const lists = new Set<string>();
    const kept = new Map<string, Set<string>>();
    for (const { databases, objects } of manifests) {
      if (objects !== null) lists.add(listOf(objects.list.sequence));
      for (const { name, map, packs } of databases) {
        const files = kept.get(folderOf(name)) ?? new Set();
        kept.set(folderOf(name), files);
        files.add(mapOf(name, map.sequence));
        lists.add(mapCopyOf(name, map.sequence));
        for (const { sequence } of packs) files.add(this.packName(name, sequence));
      }
    }
    for (const [folder, files] of [...kept, [LISTS, lists] as const]) {
      for (const each of this.folder.list(folder)) {
        if (OWN_FILE.test(each) && !files.has(`${folder}/${each}`)) this.folder.remove(`${folder}/${each}`);
      }
    }
  }

  /** An unreadable or foreign file counts as damage. */
  #tryRead(name: string, bytesMax: number): Buffer | undefined {
    try {
      return this.folder.read(name, bytesMax);
    } catch {
      return undefined;
    }
  }
}

const quote = (path: string): string =>
  /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;

export class PagePack {
  readonly #fd: number;

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** The number of bytes read; fewer at the end or on a disk error. */
  read(buffer: Uint8Array, bytes: number, position: number): number {
    try {
      return readSync(this.#fd, buffer, 0, bytes, position);
    } catch {
      return 0;
    }
  }

  close(): void {
    closeSync(this.#fd);
  }
}
