/** Copies a database page by page. Pages already in the folder are recognized by checksum and not written again. */
import type { PageSnapshot } from '../engine/backup-ports.ts';
import { GrowingFile } from './durable-files.ts';
import type { DatabaseEntry, PackEntry } from './manifest.ts';
import type { Pace } from './pace.ts';
import { makePageSum, PageMap } from './page-map.ts';
import type { Repository } from './repository.ts';

export interface FormerDatabase {
  readonly entry: DatabaseEntry;
  readonly map: PageMap;
}

interface DatabaseCopy {
  readonly repository: Repository;
  readonly sequence: number;
  readonly seed: string;
  readonly former: FormerDatabase | undefined;
  readonly pace: Pace;
}

/** Copies pages in passes: each writes what changed since the one before, so only a short last pass runs on a pinned log. */
export class DatabaseCopies {
  readonly #name: string;
  readonly #copy: DatabaseCopy;
  readonly #sumOf: (page: Uint8Array) => bigint;
  /** the pages copied so far, and the retained packs */
  #known: PageMap | undefined;
  #kept: ReadonlySet<number> = new Set();
  #pack: GrowingFile | undefined;
  #written = 0;

  constructor(name: string, copy: DatabaseCopy) {
    this.#name = name;
    this.#copy = copy;
    this.#sumOf = makePageSum(copy.seed);
  }

  async pass(snapshot: PageSnapshot): Promise<number> {
    return (await this.#copyChanged(snapshot, true)).writtenBytes;
  }

  /** The last pass: copies the pages as of one commit. The copy is durable when it resolves. */
  async finish(snapshot: PageSnapshot): Promise<DatabaseEntry> {
    const { repository, sequence } = this.#copy;
    // The log is pinned, so only the share of time is bounded, not the rate.
    const { map } = await this.#copyChanged(snapshot, false);
    this.#pack?.finish();
    return {
      name: this.#name,
      pageBytes: snapshot.pageBytes,
      pageCount: snapshot.pageCount,
      map: repository.writeMap(this.#name, sequence, map),
      packs: countPacks(map, this.#copy, this.#written),
    };
  }

  async #copyChanged(
    snapshot: PageSnapshot,
    isRated: boolean,
  ): Promise<{ readonly map: PageMap; readonly writtenBytes: number }> {
    const { pageBytes, pageCount } = snapshot;
    const { pace } = this.#copy;
    this.#beginWith(pageBytes);
    const map = PageMap.make(pageCount);
    const chunkPages = Math.floor((1024 * 1024) / pageBytes);
    const chunk = Buffer.alloc(chunkPages * pageBytes);
    const before = this.#written;
    let startedAt = performance.now();
    let rated = 0;
    for (let first = 0; first < pageCount; first += chunkPages) {
      const count = Math.min(chunkPages, pageCount - first);
      snapshot.read(first, count, chunk);
      const changed = this.#gather(chunk, { first, count, pageBytes }, map);
      this.#write(changed);
      if (isRated) rated += changed.length;
      const busyMs = performance.now() - startedAt;
      // For less work the timer would take longer than the pause.
      if (busyMs < 2) continue;
      await pace.rest(busyMs, rated);
      startedAt = performance.now();
      rated = 0;
    }
    this.#known = map;
    this.#kept = new Set([...this.#kept, this.#copy.sequence]);
    return { map, writtenBytes: (this.#written - before) * pageBytes };
  }

  /** The first pass compares with an earlier backup. */
  #beginWith(pageBytes: number): void {
    if (this.#known !== undefined) return;
    const { repository, former } = this.#copy;
    this.#known = former?.map ?? PageMap.make(0);
    this.#kept = findKeptPacks(this.#name, pageBytes, repository, former);
  }

  /** Moves the changed pages to the start of the chunk and records the position of all pages. */
  #gather(chunk: Buffer, { first, count, pageBytes }: PageRange, map: PageMap): Buffer {
    const known = this.#known;
    let bytes = 0;
    for (let page = first; page < first + count; page += 1) {
      const at = (page - first) * pageBytes;
      const sum = this.#sumOf(chunk.subarray(at, at + pageBytes));
      const place = known !== undefined && page < known.pageCount ? known.placeOf(page) : undefined;
      if (place !== undefined && known?.sumOf(page) === sum && this.#kept.has(place.pack)) {
        map.set(page, place, sum);
        continue;
      }
      chunk.copyWithin(bytes, at, at + pageBytes);
      bytes += pageBytes;
      map.set(page, { pack: this.#copy.sequence, index: this.#written++ }, sum);
    }
    return chunk.subarray(0, bytes);
  }

  #write(changed: Buffer): void {
    if (changed.length === 0) return;
    const { repository, sequence, pace } = this.#copy;
    this.#pack ??= new GrowingFile(repository.folder, repository.packName(this.#name, sequence));
    this.#pack.append(changed);
    pace.count(changed.length);
  }
}

interface PageRange {
  readonly first: number;
  readonly count: number;
  readonly pageBytes: number;
}

/** The packs whose pages are not copied again: intact, with at least half of their pages in use. */
function findKeptPacks(
  name: string,
  pageBytes: number,
  repository: Repository,
  former: FormerDatabase | undefined,
): ReadonlySet<number> {
  if (former === undefined || former.entry.pageBytes !== pageBytes) return new Set();
  const useful = former.entry.packs
    .filter(({ pages, live }) => live * 2 >= pages)
    .filter(
      ({ sequence, pages }) =>
        repository.folder.sizeOf(repository.packName(name, sequence)) === pages * pageBytes,
    );
  const byUse = useful.toSorted((a, b) => b.live - a.live);
  // Beyond 48 packs, those with the fewest used pages are rewritten into one.
  const kept = byUse.length > 48 ? byUse.slice(0, 24) : byUse;
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
