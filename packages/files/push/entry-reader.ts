/** One file or link as an entry: known again from last time, or read. */
import {
  buildSymlink,
  CHUNK_BYTES_MIN,
  MTIME_NS_MAX,
  MTIME_NS_MIN,
  type ProgressReporter,
} from '@holdfast/client/push';
import { encodeNode } from '@holdfast/protocol';
import { type ByteString, displayName } from '../byte-names.ts';
import type { FileStats } from '../entry-stats.ts';
import { digestAtOnce } from '../node-digest.ts';
import type { FolderState } from './folder-state.ts';
import { fingerprintOf, type HashedFile, hashFile, type TakeNode } from './hash-file.ts';
import type { SeenEntries } from './seen-entries.ts';
import type { SourceFolder } from './source-tree.ts';
import { isSameFingerprint, type SeenEntry } from './stat-pages.ts';

export interface SourceEntry {
  readonly folder: SourceFolder;
  readonly name: ByteString;
}

export interface FoundEntry {
  /** from the root of the tree */
  readonly path: ByteString;
  /** what the state calls it */
  readonly name: ByteString;
  readonly source: SourceEntry;
  readonly stats: FileStats;
  /** the state's id of the directory */
  readonly directory: number;
  /** `stats` are of when the survey looked */
  readonly isSurveyed: boolean;
}

export interface EntryReaderOptions {
  readonly recordsMtime: boolean;
  /** Entries, as people see them, that are read even if they look unchanged. */
  readonly distrusted: ReadonlySet<string>;
  readonly takeNode?: TakeNode | undefined;
  readonly progress: Pick<ProgressReporter, 'warn'>;
}

export class EntryReader {
  readonly #state: FolderState;
  readonly #recordsMtime: boolean;
  readonly #distrusted: ReadonlySet<string>;
  readonly #takeNode: TakeNode | undefined;
  readonly #progress: Pick<ProgressReporter, 'warn'>;

  constructor(state: FolderState, { recordsMtime, distrusted, takeNode, progress }: EntryReaderOptions) {
    this.#state = state;
    this.#recordsMtime = recordsMtime;
    this.#distrusted = distrusted;
    this.#takeNode = takeNode;
    this.#progress = progress;
  }

  /** The entry of last time, when nothing says that it changed. `seen` is asked in the order of names. */
  findKnown({ path, name, stats, directory }: FoundEntry, seen: SeenEntries): SeenEntry | undefined {
    const inFolder = seen.find(name);
    if (this.#distrusted.size > 0 && this.#distrusted.has(displayName(path))) return undefined;
    // The row of a large file says which index nodes exist, even if its folder was never finished.
    const known = isLarge(stats) ? this.#state.findFile(directory, name) : inFolder;
    if (!isKnown(known, stats)) return undefined;
    const isExecutableNow = stats.isFile() && isExecutable(stats);
    return isExecutableNow === known.isExecutable ? known : { ...known, isExecutable: isExecutableNow };
  }

  /** `onRead` hears how a large file gets on. Throws or rejects with FileBusyError or what the system says. */
  read(found: FoundEntry, onRead: (bytes: number) => void): SeenEntry | Promise<SeenEntry> {
    return found.stats.isSymbolicLink() ? this.#readLink(found) : this.#readFile(found, onRead);
  }

  /** ns; undefined when the tree records no times, or cannot hold this one. `stats`: a look at the entry, if it is new. */
  mtimeOf({ folder, name }: SourceEntry, path: ByteString, stats?: FileStats): bigint | undefined {
    if (!this.#recordsMtime) return undefined;
    const mtimeNs = stats?.mtimeNs ?? folder.mtimeNs(name);
    if (mtimeNs >= MTIME_NS_MIN && mtimeNs <= MTIME_NS_MAX) return mtimeNs;
    const reason = 'its modification time is not between 1677 and 2262, which are all that a tree can hold';
    this.#progress.warn(`${displayName(path)} is stored without a time: ${reason}`);
    return undefined;
  }

  #readFile(found: FoundEntry, onRead: (bytes: number) => void): SeenEntry | Promise<SeenEntry> {
    const { source, stats, isSurveyed } = found;
    const seenAt = Date.now();
    const open = (): number => source.folder.openFile(source.name);
    const hashed = hashFile(open, stats, { onRead, takeNode: this.#takeNode, isSurveyed });
    if (hashed instanceof Promise) return hashed.then((file) => this.#keepFile(found, seenAt, file));
    return this.#keepFile(found, seenAt, hashed);
  }

  #keepFile(found: FoundEntry, seenAt: number, { hash, bytes, stats, indexNodes }: HashedFile): SeenEntry {
    const { name, directory } = found;
    const entry = this.#describe(found, 'file', stats, seenAt, {
      hash,
      bytes,
      isIndexed: indexNodes.length > 0,
    });
    if (bytes > CHUNK_BYTES_MIN) {
      this.#state.dropFile(directory, name);
      for (const node of indexNodes) this.#state.putNode(directory, name, node.hash, node.bytes);
      this.#state.putFile(directory, entry);
      this.#state.saveSometimes();
    }
    return entry;
  }

  async #readLink(found: FoundEntry): Promise<SeenEntry> {
    const seenAt = Date.now();
    const target = found.source.folder.readLink(found.source.name);
    const takeNode = this.#takeNode;
    const built = await buildSymlink(
      {
        digest: digestAtOnce,
        emit: (node) => takeNode?.(node.hash, encodeNode(node), { files: 1, bytes: target.length }),
      },
      target,
    );
    return this.#describe(found, 'symlink', found.stats, seenAt, { ...built, isIndexed: false });
  }

  #describe(
    { name, source, path }: FoundEntry,
    kind: 'file' | 'symlink',
    stats: FileStats,
    seenAt: number,
    { hash, bytes, isIndexed }: Pick<SeenEntry, 'hash' | 'bytes' | 'isIndexed'>,
  ): SeenEntry {
    return {
      name,
      kind,
      isExecutable: kind === 'file' && isExecutable(stats),
      isIndexed,
      // Bytes added while the file was read are for the next push.
      isSettled: isSettled(stats, seenAt) && (kind === 'symlink' || bytes === stats.size),
      fingerprint: fingerprintOf(stats),
      hash,
      bytes,
      entryCount: 0,
      mtimeNs: this.mtimeOf(source, path, stats),
    };
  }
}

export function kindOf(stats: FileStats): SeenEntry['kind'] | undefined {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'directory';
  return stats.isSymbolicLink() ? 'symlink' : undefined;
}

/** More than one read, perhaps more than one chunk. */
export function isLarge(stats: FileStats): boolean {
  return stats.isFile() && stats.size > CHUNK_BYTES_MIN;
}

function isKnown(entry: SeenEntry | undefined, stats: FileStats): entry is SeenEntry {
  return (
    entry?.isSettled === true &&
    entry.kind === kindOf(stats) &&
    isSameFingerprint(entry.fingerprint, fingerprintOf(stats))
  );
}

/** For anyone: which of the three bits are set is a matter of the machine, not of the tree. */
function isExecutable({ mode }: FileStats): boolean {
  return (mode & 0o111) !== 0;
}

/** Whether it was changed so long before `seenAt`, ms, that a further change shows. The next write changes a time in the future. */
export function isSettled({ mtimeMs, ctimeMs }: FileStats, seenAt: number): boolean {
  const changedAt = mtimeMs > seenAt ? ctimeMs : Math.max(mtimeMs, ctimeMs);
  const isCoarse = ctimeMs % 1_000 === 0;
  // A file can change again within one tick of its clock and keep its times. A tick of a coarse clock has two seconds.
  return changedAt < seenAt - (isCoarse ? 2_100 : 100);
}
