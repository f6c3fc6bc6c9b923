/** Copies a database page by page. Pages that the folder has already are told by their checksums, and not written again. */
import { mkdirSync, statSync } from 'node:fs';
import type { PageSnapshot } from '../engine/backup-ports.ts';
import { GrowingFile, syncFolder, writeDurably } from './durable-files.ts';
import type { Pace } from './pace.ts';
import { makePageSum, PageMap } from './page-map.ts';
import { type DatabaseEntry, digestOf, type PackEntry, type Repository } from './repository.ts';

const FOLDER_MODE = 0o700;
const CHUNK_BYTES = 1024 * 1024;
/** chunks without a change that are read in one turn of the event loop */
const CHUNKS_PER_TURN = 64;
/** From here on the packs with the fewest pages in use are copied anew, into one. */
const PACKS_MAX = 48;
const PACKS_KEPT = 24;

/** What an earlier backup into the same folder has of the database. */
export interface FormerDatabase {
  readonly entry: DatabaseEntry;
  readonly map: PageMap;
}

export interface DatabaseCopy {
  readonly repository: Repository;
  readonly sequence: number;
  readonly seed: string;
  readonly former: FormerDatabase | undefined;
  readonly pace: Pace;
}

export async function copyDatabase(
  name: string,
  snapshot: PageSnapshot,
  copy: DatabaseCopy,
): Promise<DatabaseEntry> {
  const { repository, sequence } = copy;
  mkdirSync(repository.folderOf(name), { recursive: true, mode: FOLDER_MODE });
  const map = PageMap.make(snapshot.pageCount);
  const pages = await copyPages(name, snapshot, map, copy);
  writeDurably(repository.mapPath(name, sequence), map.bytes);
  syncFolder(repository.folderOf(name));
  return {
    name,
    pageBytes: snapshot.pageBytes,
    pageCount: snapshot.pageCount,
    map: { sequence, sha256: digestOf(map.bytes) },
    packs: countPacks(map, copy, pages),
  };
}

/** Resolves with the number of pages that were written. */
async function copyPages(
  name: string,
  snapshot: PageSnapshot,
  map: PageMap,
  { repository, sequence, seed, former, pace }: DatabaseCopy,
): Promise<number> {
  const { pageBytes, pageCount } = snapshot;
  const sumOf = makePageSum(seed);
  const kept = findKeptPacks(name, pageBytes, repository, former);
  const chunkPages = Math.floor(CHUNK_BYTES / pageBytes);
  const chunk = Buffer.alloc(chunkPages * pageBytes);
  const changed = Buffer.alloc(chunk.length);
  let pack: GrowingFile | undefined;
  let written = 0;
  for (let first = 0; first < pageCount; first += chunkPages) {
    const count = Math.min(chunkPages, pageCount - first);
    snapshot.read(first, count, chunk);
    let bytes = 0;
    for (let page = first; page < first + count; page += 1) {
      const at = (page - first) * pageBytes;
      const content = chunk.subarray(at, at + pageBytes);
      const sum = sumOf(content);
      const place =
        former !== undefined && page < former.map.pageCount ? former.map.placeOf(page) : undefined;
      if (place !== undefined && former?.map.sumOf(page) === sum && kept.has(place.pack)) {
        map.set(page, place, sum);
        continue;
      }
      changed.set(content, bytes);
      bytes += pageBytes;
      map.set(page, { pack: sequence, index: written++ }, sum);
    }
    if (bytes === 0) {
      // Lets a signal be heard.
      if ((first / chunkPages) % CHUNKS_PER_TURN === 0) await Bun.sleep(0);
      continue;
    }
    pack ??= new GrowingFile(repository.packPath(name, sequence));
    pack.append(changed.subarray(0, bytes));
    await pace.take(bytes);
  }
  pack?.finish();
  return written;
}

/** The packs whose pages are not copied again: those that are whole and of which at least half is in use. */
function findKeptPacks(
  name: string,
  pageBytes: number,
  repository: Repository,
  former: FormerDatabase | undefined,
): ReadonlySet<number> {
  if (former === undefined || former.entry.pageBytes !== pageBytes) return new Set();
  const useful = former.entry.packs
    .filter(({ pages, live }) => live * 2 >= pages)
    .filter(({ sequence, pages }) => {
      const found = statSync(repository.packPath(name, sequence), { throwIfNoEntry: false });
      return found?.size === pages * pageBytes;
    });
  const byUse = useful.toSorted((a, b) => b.live - a.live);
  const kept = byUse.length > PACKS_MAX ? byUse.slice(0, PACKS_KEPT) : byUse;
  return new Set(kept.map(({ sequence }) => sequence));
}

function countPacks(map: PageMap, { sequence, former }: DatabaseCopy, written: number): PackEntry[] {
  const live = new Map<number, number>();
  for (let page = 0; page < map.pageCount; page += 1) {
    const { pack } = map.placeOf(page);
    live.set(pack, (live.get(pack) ?? 0) + 1);
  }
  const pagesOf = new Map(former?.entry.packs.map((pack) => [pack.sequence, pack.pages]));
  pagesOf.set(sequence, written);
  return [...live].map(([pack, count]) => ({ sequence: pack, pages: pagesOf.get(pack) ?? 0, live: count }));
}
