/** Takes databases and objects out of a backup again, and proves every byte by the sums that were made when it was copied. */
import { closeSync, mkdirSync, openSync, readSync } from 'node:fs';
import { copyFile, open, readFile, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Generation } from '../core/model.ts';
import type { ObjectFiles } from '../engine/backup-ports.ts';
import { ServeError } from '../errors.ts';
import { GrowingFile, syncFolder } from './durable-files.ts';
import { decodeObjectList, type ObjectSizes } from './object-list.ts';
import { makePageSum, PageMap } from './page-map.ts';
import { type DatabaseEntry, digestOf, type Manifest, type Repository } from './repository.ts';

const FOLDER_MODE = 0o700;
const RUN_PAGES_MAX = 256;
const COPIES_IN_FLIGHT = 8;

interface Damage {
  /** what is damaged, for a person */
  readonly what: string;
}

export type OnDamage = (damage: Damage) => void;

/** @throws ServeError when the folder holds no backup */
export async function readManifest(repository: Repository): Promise<Manifest> {
  const manifest = await repository.findManifest();
  if (manifest !== undefined) return manifest;
  throw new ServeError(
    `${repository.root} holds no finished backup: check the path, or make one there first`,
  );
}

/** Writes the databases into `folder` as they were. A damaged page is told and written as it is. Durable when it resolves. */
export async function writeDatabases(
  repository: Repository,
  { databases, seed }: Manifest,
  folder: string,
  onDamage: OnDamage,
): Promise<void> {
  for (const entry of databases) {
    await new DatabaseReading(repository, entry, seed, onDamage).write(join(folder, entry.name));
  }
  syncFolder(folder);
}

class DatabaseReading {
  readonly #repository: Repository;
  readonly #entry: DatabaseEntry;
  readonly #sumOf: (page: Uint8Array) => bigint;
  readonly #onDamage: OnDamage;
  readonly #packs = new Map<number, number | undefined>();

  constructor(repository: Repository, entry: DatabaseEntry, seed: string, onDamage: OnDamage) {
    this.#repository = repository;
    this.#entry = entry;
    this.#sumOf = makePageSum(seed);
    this.#onDamage = onDamage;
  }

  async write(path: string): Promise<void> {
    const map = await this.#readMap();
    const target = new GrowingFile(path);
    try {
      const { pageBytes, pageCount } = this.#entry;
      const buffer = Buffer.alloc(RUN_PAGES_MAX * pageBytes);
      for (let page = 0; page < pageCount; ) {
        const count = countRun(map, page, pageCount);
        this.#readRun(map, page, count, buffer);
        target.append(buffer.subarray(0, count * pageBytes));
        page += count;
      }
      target.finish();
    } finally {
      for (const pack of this.#packs.values()) if (pack !== undefined) closeSync(pack);
    }
  }

  async #readMap(): Promise<PageMap> {
    const { name, map: entry, pageCount } = this.#entry;
    const path = this.#repository.mapPath(name, entry.sequence);
    const bytes = await readFile(path).catch(() => undefined);
    if (bytes !== undefined && digestOf(bytes) === entry.sha256) {
      const map = new PageMap(bytes);
      if (map.pageCount === pageCount) return map;
    }
    throw new ServeError(
      `the backup is damaged: ${path} is gone or not as it was written; restore that file, or make a new backup in another folder`,
    );
  }

  #readRun(map: PageMap, first: number, count: number, buffer: Buffer): void {
    const { pageBytes, name } = this.#entry;
    const { pack, index } = map.placeOf(first);
    const fd = this.#openPack(pack);
    const bytes = fd === undefined ? 0 : readSync(fd, buffer, 0, count * pageBytes, index * pageBytes);
    buffer.fill(0, bytes, count * pageBytes);
    for (let page = first; page < first + count; page += 1) {
      const at = (page - first) * pageBytes;
      if (this.#sumOf(buffer.subarray(at, at + pageBytes)) === map.sumOf(page)) continue;
      this.#onDamage({ what: `page ${page + 1} of ${name} (${this.#repository.packPath(name, pack)})` });
    }
  }

  #openPack(sequence: number): number | undefined {
    if (!this.#packs.has(sequence)) {
      this.#packs.set(sequence, openIfThere(this.#repository.packPath(this.#entry.name, sequence)));
    }
    return this.#packs.get(sequence);
  }
}

/** Pages that lie one after the other in one pack. */
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

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The objects of the backup; none where the bytes are in a bucket. @throws ServeError when the list is damaged */
export async function readObjectSizes(repository: Repository, { objects }: Manifest): Promise<ObjectSizes> {
  if (objects === null) return new Map();
  const path = repository.listPath(objects.list.sequence);
  const bytes = await readFile(path).catch(() => undefined);
  if (bytes !== undefined && digestOf(bytes) === objects.list.sha256) return decodeObjectList(bytes);
  throw new ServeError(
    `the backup is damaged: ${path} is gone or not as it was written; restore that file, or make a new backup in another folder`,
  );
}

/** Tells every object that is not there, or not of its length. Its bytes are proven with the node that they belong to. */
export async function checkObjects(
  files: ObjectFiles,
  sizes: ObjectSizes,
  onDamage: OnDamage,
): Promise<void> {
  await forEachObject(sizes, async (generation, size) => {
    const path = files.pathOf(generation);
    const found = await stat(path).catch(() => undefined);
    if (found === undefined) onDamage({ what: `the object ${path} is gone` });
    else if (found.size !== size)
      onDamage({ what: `the object ${path} has ${found.size} bytes instead of ${size}` });
  });
}

/** Copies all objects into folders that exist. Durable when it resolves. */
export async function writeObjects(
  from: ObjectFiles,
  to: ObjectFiles,
  sizes: ObjectSizes,
  onCopied: () => void,
): Promise<void> {
  for (const folder of to.folders) mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
  await forEachObject(sizes, async (generation) => {
    await copyFile(from.pathOf(generation), to.pathOf(generation));
    const file = await open(to.pathOf(generation), 'r+');
    try {
      await file.sync();
    } finally {
      await file.close();
    }
    onCopied();
  });
  for (const folder of [...to.folders, ...new Set(to.folders.map((each) => dirname(each)))])
    syncFolder(folder);
}

async function forEachObject(
  sizes: ObjectSizes,
  work: (generation: Generation, size: number) => Promise<void>,
): Promise<void> {
  const entries = sizes.entries();
  const run = async (): Promise<void> => {
    for (const [generation, size] of entries) await work(generation, size);
  };
  await Promise.all(Array.from({ length: COPIES_IN_FLIGHT }, run));
}
