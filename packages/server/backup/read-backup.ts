/** Extracts databases and objects from a backup and verifies every byte by the stored checksums. */
import { closeSync, fsync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Generation } from '../core/model.ts';
import { type HeldFolder, NotOurs } from '../deployment/held-folder.ts';
import { ServeError } from '../errors.ts';
import { type BackupObjects, copyFileBytes } from './backup-objects.ts';
import { GrowingFile } from './durable-files.ts';
import type { DatabaseEntry, Manifest } from './manifest.ts';
import { makePageSum, PageMap } from './page-map.ts';
import type { ObjectSizes } from './repository.ts';
import { PagePack, type Repository } from './repository.ts';

const RUN_PAGES_MAX = 256;
const syncFile = promisify(fsync);

export type OnDamage = (what: string) => void;

/** A page with a wrong checksum, written as it is. It may be repairable. */
export interface DamagedPage {
  readonly database: string;
  /** zero-based */
  readonly page: number;
  readonly pageBytes: number;
  readonly mend: (bytes: Buffer) => boolean;
}

/** Writes the databases into `folder`. Reports damaged pages and writes them as they are. The files are durable when it resolves. */
export function writeDatabases(
  repository: Repository,
  { databases, seed }: Manifest,
  folder: HeldFolder,
  onDamage: OnDamage,
): readonly DamagedPage[] {
  const damaged = databases.flatMap((entry) =>
    new DatabaseReading(repository, entry, seed, onDamage).write(folder),
  );
  folder.sync();
  return damaged;
}

class DatabaseReading {
  readonly #repository: Repository;
  readonly #entry: DatabaseEntry;
  readonly #sumOf: (page: Uint8Array) => bigint;
  readonly #onDamage: OnDamage;
  readonly #packs = new Map<number, PagePack | undefined>();
  readonly #damaged: DamagedPage[] = [];
  #areSumsKnown = true;
  #tries = 0;

  constructor(repository: Repository, entry: DatabaseEntry, seed: string, onDamage: OnDamage) {
    this.#repository = repository;
    this.#entry = entry;
    this.#sumOf = makePageSum(seed);
    this.#onDamage = onDamage;
  }

  /** Returns the pages that are damaged and may be repairable. */
  write(folder: HeldFolder): readonly DamagedPage[] {
    const map = this.#readMap();
    const target = new GrowingFile(folder, this.#entry.name);
    try {
      const { pageBytes, pageCount } = this.#entry;
      const buffer = Buffer.alloc(RUN_PAGES_MAX * pageBytes);
      for (let page = 0; page < pageCount; ) {
        const count = countRun(map, page, pageCount);
        this.#readRun(map, page, count, buffer);
        target.append(buffer.subarray(0, count * pageBytes));
        page += count;
      }
      target.sync();
    } finally {
      target.close();
      for (const pack of this.#packs.values()) pack?.close();
    }
    return this.#damaged;
  }

  /** Without a map the pages are known only if one backup wrote all of them in order. */
  #readMap(): PageMap {
    const { name, packs, pageCount } = this.#entry;
    const { map, damaged } = this.#repository.readMap(this.#entry);
    for (const each of damaged) this.#onDamage(each);
    if (map !== undefined) return map;
    const [pack] = packs;
    if (pack === undefined || packs.length > 1 || pack.pages !== pageCount) {
      throw new ServeError(
        `nobody knows where the pages of ${name} lie, because both of their lists are gone or cut: ${damaged.join('; ')}; ${this.#repository.adviseFormer()}`,
      );
    }
    this.#areSumsKnown = false;
    const inOrder = PageMap.make(pageCount);
    for (let page = 0; page < pageCount; page += 1) {
      inOrder.set(page, { pack: pack.sequence, index: page }, 0n);
    }
    return inOrder;
  }

  #readRun(map: PageMap, first: number, count: number, buffer: Buffer): void {
    const { pageBytes, name } = this.#entry;
    const { pack, index } = map.placeOf(first);
    const bytes = this.#openPack(pack)?.read(buffer, count * pageBytes, index * pageBytes) ?? 0;
    buffer.fill(0, bytes, count * pageBytes);
    if (!this.#areSumsKnown) return;
    for (let page = first; page < first + count; page += 1) {
      const at = (page - first) * pageBytes;
      const found = buffer.subarray(at, at + pageBytes);
      const sum = map.sumOf(page);
      if (this.#sumOf(found) === sum) continue;
      this.#onDamage(`page ${page + 1} of ${name} (${this.#pathOf(pack)})`);
      // Each attempt to repair a page takes up to a second.
      const mend = (bytes: Buffer): boolean => this.#tries++ < 32 && mendPage(bytes, sum, this.#sumOf);
      // A truncated or lost page has more than one wrong byte.
      const isMendable = at + pageBytes <= bytes && found.some((byte) => byte !== 0);
      if (!isMendable || (isStructure(found, page) && mend(found))) continue;
      this.#damaged.push({ database: name, page, pageBytes, mend });
    }
  }

  /** A missing or invalid pack has no pages. A damaged map may name any pack. */
  #openPack(sequence: number): PagePack | undefined {
    if (!this.#packs.has(sequence)) {
      const isOurs = this.#entry.packs.some((pack) => pack.sequence === sequence);
      this.#packs.set(sequence, isOurs ? this.#findPack(sequence) : undefined);
    }
    return this.#packs.get(sequence);
  }

  #findPack(sequence: number): PagePack | undefined {
    try {
      const fd = this.#repository.folder.openToRead(this.#repository.packName(this.#entry.name, sequence));
      return fd === undefined ? undefined : new PagePack(fd);
    } catch (error) {
      if (!(error instanceof NotOurs)) throw error;
      this.#onDamage(error.message);
      return undefined;
    }
  }

  #pathOf(pack: number): string {
    return join(this.#repository.root, this.#repository.packName(this.#entry.name, pack));
  }
}

function countRun(map: PageMap, first: number, pageCount: number): number {
  const start = map.placeOf(first);
  let count = 1;
  while (count < RUN_PAGES_MAX && first + count < pageCount) {
    const { pack, index } = map.placeOf(first + count);
    if (pack !== start.pack || index !== start.index + count) break;
    count += 1;
  }
  return count;
}

/** The objects of the backup that exist, none if they are in a bucket. Reports those that are missing or have another length. */
export function findObjects(
  repository: Repository,
  manifest: Manifest,
  objects: BackupObjects,
  onDamage: OnDamage,
): ObjectSizes {
  if (manifest.objects === null) return new Map();
  const listed = repository.findList(manifest);
  if (listed === undefined) {
    onDamage(`${repository.listPath(manifest.objects.list.sequence)} is gone or not as it was written`);
    return objects.listSizes();
  }
  const found = new Map<Generation, number>();
  for (const [generation, size] of listed) {
    const path = join(repository.root, objects.nameOf(generation));
    const there = objects.findSize(generation);
    if (there === undefined) onDamage(`the object ${path} is gone`);
    else if (there === 'other')
      onDamage(`the object ${path} is a link, a pipe or something else that is no file`);
    else found.set(generation, there);
    if (typeof there === 'number' && there !== size) {
      onDamage(`the object ${path} has ${there} bytes instead of ${size}`);
    }
  }
  return found;
}

/** Copies all objects into existing folders. They are durable when it resolves. Unreadable objects are reported and skipped. */
export async function writeObjects(
  from: BackupObjects,
  to: BackupObjects,
  sizes: ObjectSizes,
  { onCopied, onDamage }: { readonly onCopied: () => void; readonly onDamage: OnDamage },
): Promise<void> {
  to.makeFolders();
  const generations = sizes.keys();
  const run = async (): Promise<void> => {
    for (const generation of generations) {
      const source = from.openToRead(generation);
      if (source === undefined) continue;
      try {
        await writeObject(source, to, generation);
      } catch (error) {
        if ((error as { code?: unknown }).code !== 'EIO') throw error;
        onDamage(`the object ${join(from.folder.path, from.nameOf(generation))} cannot be read (EIO)`);
        to.remove(generation);
      } finally {
        closeSync(source);
      }
      onCopied();
    }
  };
  await Promise.all(Array.from({ length: 8 }, run));
  to.sync(sizes.keys());
}

async function writeObject(source: number, to: BackupObjects, generation: Generation): Promise<void> {
  const target = to.folder.create(to.nameOf(generation));
  try {
    await copyFileBytes(source, target);
    await syncFile(target);
  } finally {
    closeSync(target);
  }
}

/** Whether a page refers to other pages. The first page of a database leads to all of them. */
const isStructure = (bytes: Uint8Array, page: number): boolean =>
  // Interior pages of an index and of a table refer to other pages (https://www.sqlite.org/fileformat2.html).
  page === 0 || bytes[0] === 2 || bytes[0] === 5;

/** Repairs a wrong byte: of all pages that differ in one byte, only the original matches the sum. Else all nodes behind it are lost. */
function mendPage(bytes: Uint8Array, sum: bigint, sumOf: (page: Uint8Array) => bigint): boolean {
  for (const [at, found] of bytes.entries()) {
    for (let value = 0; value < 256; value += 1) {
      bytes[at] = value;
      if (sumOf(bytes) === sum) return true;
    }
    bytes[at] = found;
  }
  return false;
}
