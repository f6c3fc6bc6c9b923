/**
 * Reads a folder into a tree: every entry in byte order, children before parents, in bounded memory. What is as it was
 * last time is not read again. Links are stored as they are and never followed.
 */
import { lstatSync, readFileSync, readlinkSync, type Stats } from 'node:fs';
import { buildSymlink, CHUNK_BYTES_MIN, type ProgressReporter } from '@holdfast/client';
import type { Hash } from '@holdfast/protocol';
import { type ByteString, displayName, joinPath, listNames, toFsPath } from './byte-names.ts';
import { type ComingEntry, DirectoryWriter } from './directory-writer.ts';
import { digestAtOnce, FileBusyError, fingerprintOf, hashFile } from './hash-file.ts';
import type { IgnoreRules } from './ignore-rules.ts';
import { describeSystemError, isGone, ScanProblems } from './scan-problem.ts';
import { SeenEntries } from './seen-entries.ts';
import { type Fingerprint, isSameFingerprint, packPage, type SeenEntry, unpackPage } from './stat-pages.ts';
import type { DirectoryRow, TreeState } from './tree-state.ts';

export interface ScanOptions {
  /** absolute path of a folder, file or link */
  readonly root: ByteString;
  readonly state: TreeState;
  readonly rules: IgnoreRules;
  /** Names of pattern files that are honoured in every folder. */
  readonly ignoreFileNames: readonly string[];
  readonly recordsMtime: boolean;
  /** Leave out sockets, pipes and devices with a warning instead of failing. */
  readonly skipsSpecial: boolean;
  /** Entries, as people see them, that are read even if they look unchanged. */
  readonly distrusted: ReadonlySet<string>;
  readonly progress: ProgressReporter;
  readonly signal: AbortSignal | undefined;
}

/** The root as an entry of nothing. */
export interface ScannedRoot {
  readonly kind: 'file' | 'directory' | 'symlink';
  readonly hash: Hash;
  /** of all files and link targets */
  readonly bytes: number;
  /** the root included */
  readonly entryCount: number;
  /** the directory, or what a root that is a file is remembered under */
  readonly directoryId: number;
  /** entries that were read because they were new or changed */
  readonly readCount: number;
}

/** Larger files that are read at the same time. */
const LARGE_FILES_MAX = 2;
/** How long the scan may keep the process to itself. */
const TURN_MS = 25;
/** A pattern file is no larger. */
const IGNORE_FILE_BYTES_MAX = 1024 * 1024;
/** Within its last change's tick a file can change again without a trace: of coarse clocks two seconds, of fine ones less. */
const SETTLED_AFTER_MS = 100;
const SETTLED_AFTER_COARSE_MS = 2_100;

const NO_FINGERPRINT: Fingerprint = { size: 0, mtimeMs: 0, ctimeMs: 0, inode: 0 };
/** The state's name of the root, and the id above it. */
const ROOT_NAME = '';
const ABOVE_ROOT = 0;

/** Throws ScanError when entries cannot be stored, the reason of the signal, or what the system says of the root. */
export function scanTree(options: ScanOptions): Promise<ScannedRoot> {
  return new Scan(options).run();
}

class Scan {
  readonly #options: ScanOptions;
  readonly #state: TreeState;
  readonly #problems = new ScanProblems();
  readonly #reading = new Set<Promise<unknown>>();
  /** the root is one */
  #entryCount = 1;
  #bytes = 0;
  #readCount = 0;
  #item: string | undefined;
  #turnEndsAt = performance.now() + TURN_MS;

  constructor(options: ScanOptions) {
    this.#options = options;
    this.#state = options.state;
  }

  async run(): Promise<ScannedRoot> {
    const { root, progress, rules } = this.#options;
    progress.phase('scan');
    try {
      const stats = lstatSync(toFsPath(root));
      const row = this.#directoryRow(ABOVE_ROOT, ROOT_NAME);
      const kind = kindOf(stats);
      const entry = stats.isDirectory()
        ? await this.#scanDirectory(ROOT_NAME, row, rules)
        : await this.#readEntry('', ROOT_NAME, stats, row, new SeenEntries(this.#state, row.id));
      this.#problems.throwIfAny();
      if (entry === undefined || kind === undefined)
        throw new Error(`${displayName(root)} went away; check the path`);
      this.#report();
      const { hash, bytes, entryCount } = entry;
      const readCount = this.#readCount;
      return { kind, hash, bytes, entryCount: entryCount + 1, directoryId: row.id, readCount };
    } finally {
      await Promise.allSettled(this.#reading);
      this.#state.save();
    }
  }

  #directoryRow(parent: number, name: ByteString): DirectoryRow {
    return this.#state.findDirectory(parent, name) ?? this.#state.addDirectory(parent, name);
  }

  async #scanDirectory(path: ByteString, row: DirectoryRow, outerRules: IgnoreRules) {
    const names = listNames(this.#absolute(path));
    const rules = outerRules.enter(path, this.#readPatterns(path, names));
    const seen = new SeenEntries(this.#state, row.id);
    const writer = new DirectoryWriter(this.#state, row);
    this.#item = displayName(path === '' ? this.#options.root : path);
    for (const name of names) {
      if (performance.now() > this.#turnEndsAt) await this.#yield();
      const child = joinPath(path, name);
      const entry = this.#visit(child, name, row, rules, seen);
      // Not awaited through: what is coming may be a large file that is read meanwhile.
      await writer.add(entry instanceof Promise ? (await entry).coming : entry);
    }
    const built = await writer.finish();
    if (built.isChanged) this.#dropMissing(row.id, names);
    this.#state.saveSometimes();
    return built;
  }

  /** Directories are scanned before this resolves; a large file may still be read afterwards. */
  #visit(
    path: ByteString,
    name: ByteString,
    parent: DirectoryRow,
    rules: IgnoreRules,
    seen: SeenEntries,
  ): SeenEntry | undefined | Promise<{ coming: ComingEntry }> {
    let stats: Stats | undefined;
    try {
      stats = lstatSync(toFsPath(this.#absolute(path)), { throwIfNoEntry: false });
    } catch (error) {
      return this.#refuse(path, describeSystemError(error));
    }
    if (stats === undefined || rules.isIgnored(path, stats.isDirectory())) return undefined;
    if (kindOf(stats) === undefined) return this.#meetSpecial(path, stats);
    if (stats.isDirectory()) return this.#enter(path, name, stats, parent, rules);
    return this.#meet(path, name, stats, parent, seen);
  }

  async #enter(
    path: ByteString,
    name: ByteString,
    stats: Stats,
    parent: DirectoryRow,
    rules: IgnoreRules,
  ): Promise<{ coming: ComingEntry }> {
    try {
      const { hash, bytes, entryCount } = await this.#scanDirectory(
        path,
        this.#directoryRow(parent.id, name),
        rules,
      );
      const mtimeNs = this.#mtimeOf(path);
      this.#count(1, 0);
      return {
        coming: {
          name,
          kind: kindOf(stats) ?? 'directory',
          isExecutable: false,
          isSettled: true,
          fingerprint: NO_FINGERPRINT,
          hash,
          bytes,
          entryCount,
          mtimeNs,
        },
      };
    } catch (error) {
      this.#options.signal?.throwIfAborted();
      if (!isSystemError(error)) throw error;
      return { coming: isGone(error) ? undefined : this.#refuse(path, describeSystemError(error)) };
    }
  }

  /** A file or link: known again, read at once, or (a large file) read meanwhile. */
  #meet(
    path: ByteString,
    name: ByteString,
    stats: Stats,
    parent: DirectoryRow,
    seen: SeenEntries,
  ): SeenEntry | Promise<{ coming: ComingEntry }> {
    const known = this.#findKnown(path, name, stats, parent.id, seen);
    if (known !== undefined) {
      this.#count(1, known.bytes);
      return known;
    }
    return this.#startReading(path, name, stats, parent);
  }

  async #startReading(
    path: ByteString,
    name: ByteString,
    stats: Stats,
    parent: DirectoryRow,
  ): Promise<{ coming: ComingEntry }> {
    const isLarge = stats.isFile() && stats.size > CHUNK_BYTES_MIN;
    while (isLarge && this.#reading.size >= LARGE_FILES_MAX) await Promise.race(this.#reading);
    const reading = this.#read(path, name, stats, parent.id);
    if (!isLarge) return { coming: await reading };
    const tracked = reading.finally(() => this.#reading.delete(tracked));
    tracked.catch(() => undefined);
    this.#reading.add(tracked);
    return { coming: tracked };
  }

  async #readEntry(path: ByteString, name: ByteString, stats: Stats, row: DirectoryRow, seen: SeenEntries) {
    if (kindOf(stats) === undefined) return this.#meetSpecial(path, stats);
    const met = this.#meet(path, name, stats, row, seen);
    return met instanceof Promise ? (await met).coming : met;
  }

  async #read(
    path: ByteString,
    name: ByteString,
    stats: Stats,
    directory: number,
  ): Promise<SeenEntry | undefined> {
    this.#options.signal?.throwIfAborted();
    const seenAt = Date.now();
    this.#readCount += 1;
    try {
      if (stats.isSymbolicLink()) return await this.#readLink(path, name, stats, seenAt);
      return await this.#readFile(path, name, stats, directory, seenAt);
    } catch (error) {
      this.#options.signal?.throwIfAborted();
      if (error instanceof FileBusyError) return this.#refuse(path, error.message);
      if (!isSystemError(error)) throw error;
      return isGone(error) ? undefined : this.#refuse(path, describeSystemError(error));
    }
  }

  async #readFile(
    path: ByteString,
    name: ByteString,
    before: Stats,
    directory: number,
    seenAt: number,
  ): Promise<SeenEntry> {
    const isLarge = before.size > CHUNK_BYTES_MIN;
    if (isLarge) this.#item = displayName(path);
    let readBytes = 0;
    const { hash, bytes, stats, indexNodes } = await hashFile(this.#absolute(path), before, (more) => {
      this.#options.signal?.throwIfAborted();
      readBytes += more;
      this.#count(0, more);
      this.#report();
    });
    this.#count(1, bytes - readBytes);
    const entry: SeenEntry = {
      name,
      kind: 'file',
      isExecutable: isExecutable(stats),
      isSettled: isSettled(stats, seenAt),
      fingerprint: fingerprintOf(stats),
      hash,
      bytes,
      entryCount: 0,
      mtimeNs: this.#mtimeOf(path),
    };
    if (isLarge) {
      this.#state.dropFile(directory, name);
      for (const node of indexNodes) this.#state.putNode(directory, name, node.hash, node.bytes);
      this.#state.putFile(directory, name, packPage([entry]));
      this.#state.saveSometimes();
    }
    return entry;
  }

  async #readLink(path: ByteString, name: ByteString, stats: Stats, seenAt: number): Promise<SeenEntry> {
    const target = readlinkSync(toFsPath(this.#absolute(path)), { encoding: 'buffer' });
    const { hash, bytes } = await buildSymlink({ digest: digestAtOnce, emit: () => undefined }, target);
    this.#count(1, bytes);
    return {
      name,
      kind: 'symlink',
      isExecutable: false,
      isSettled: isSettled(stats, seenAt),
      fingerprint: fingerprintOf(stats),
      hash,
      bytes,
      entryCount: 0,
      mtimeNs: this.#mtimeOf(path),
    };
  }

  #findKnown(
    path: ByteString,
    name: ByteString,
    stats: Stats,
    directory: number,
    seen: SeenEntries,
  ): SeenEntry | undefined {
    const { distrusted } = this.#options;
    if (distrusted.size > 0 && distrusted.has(displayName(path))) return undefined;
    const isLarge = stats.size > CHUNK_BYTES_MIN;
    const kept = seen.find(name) ?? (isLarge ? this.#findHashed(directory, name) : undefined);
    if (kept === undefined || kept.kind !== kindOf(stats) || !kept.isSettled) return undefined;
    if (!isSameFingerprint(kept.fingerprint, fingerprintOf(stats))) return undefined;
    const isExecutableNow = stats.isFile() && isExecutable(stats);
    return isExecutableNow === kept.isExecutable ? kept : { ...kept, isExecutable: isExecutableNow };
  }

  /** A large file that was hashed by a scan that never finished its folder. */
  #findHashed(directory: number, name: ByteString): SeenEntry | undefined {
    const packed = this.#state.findFile(directory, name);
    return packed === undefined ? undefined : unpackPage(packed)[0];
  }

  #meetSpecial(path: ByteString, stats: Stats): undefined {
    const kind = describeSpecial(stats);
    if (!this.#options.skipsSpecial) return this.#refuse(path, kind);
    this.#options.progress.warn(`${displayName(path)} is left out: it is a ${kind}`);
    return undefined;
  }

  #refuse(path: ByteString, reason: string): undefined {
    this.#problems.add(displayName(path) || displayName(this.#options.root), reason);
    return undefined;
  }

  /** Texts of the pattern files of a folder. A link in their place is not followed. */
  #readPatterns(path: ByteString, names: readonly ByteString[]): string[] {
    const { ignoreFileNames } = this.#options;
    return ignoreFileNames.flatMap((fileName) => {
      if (!names.includes(fileName)) return [];
      const file = toFsPath(this.#absolute(joinPath(path, fileName)));
      const stats = lstatSync(file, { throwIfNoEntry: false });
      if (!stats?.isFile()) return [];
      if (stats.size > IGNORE_FILE_BYTES_MAX) {
        this.#refuse(
          joinPath(path, fileName),
          `a file of patterns has at most ${IGNORE_FILE_BYTES_MAX} bytes`,
        );
        return [];
      }
      try {
        return [readFileSync(file, 'utf8')];
      } catch (error) {
        this.#refuse(joinPath(path, fileName), describeSystemError(error));
        return [];
      }
    });
  }

  #dropMissing(directory: number, names: readonly ByteString[]): void {
    this.#state.dropMissing(directory, (name) => {
      let low = 0;
      let high = names.length;
      while (low < high) {
        const middle = (low + high) >>> 1;
        if ((names[middle] as ByteString) < name) low = middle + 1;
        else high = middle;
      }
      return names[low] === name;
    });
  }

  #mtimeOf(path: ByteString): bigint | undefined {
    if (!this.#options.recordsMtime) return undefined;
    return lstatSync(toFsPath(this.#absolute(path)), { bigint: true }).mtimeNs;
  }

  #absolute(path: ByteString): ByteString {
    return path === '' ? this.#options.root : `${this.#options.root}/${path}`;
  }

  #count(entries: number, bytes: number): void {
    this.#entryCount += entries;
    this.#bytes += bytes;
  }

  #report(): void {
    this.#options.progress.expect({ files: this.#entryCount, bytes: this.#bytes });
    // Reading on is movement, even within one file of hours.
    if (this.#item !== undefined) this.#options.progress.item(this.#item);
  }

  async #yield(): Promise<void> {
    this.#options.signal?.throwIfAborted();
    this.#report();
    await new Promise((resolve) => setImmediate(resolve));
    this.#turnEndsAt = performance.now() + TURN_MS;
  }
}

function kindOf(stats: Stats): SeenEntry['kind'] | undefined {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'directory';
  return stats.isSymbolicLink() ? 'symlink' : undefined;
}

function describeSpecial(stats: Stats): string {
  if (stats.isSocket()) return 'socket';
  if (stats.isFIFO()) return 'named pipe';
  return stats.isBlockDevice() || stats.isCharacterDevice() ? 'device' : 'special file';
}

/** For anyone: which of the three bits are set is a matter of the machine, not of the tree. */
function isExecutable({ mode }: Stats): boolean {
  return (mode & 0o111) !== 0;
}

function isSettled({ mtimeMs, ctimeMs }: Stats, seenAt: number): boolean {
  const changedAt = Math.max(mtimeMs, ctimeMs);
  const isCoarse = ctimeMs % 1_000 === 0;
  return changedAt < seenAt - (isCoarse ? SETTLED_AFTER_COARSE_MS : SETTLED_AFTER_MS);
}

function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error;
}
