/**
 * Reads a folder into a tree: every entry in byte order, children before parents, in bounded memory. An entry that is as it was
 * last time is not read again. Links are stored as they are and never followed.
 */
import { type ProgressReporter, Semaphore } from '@holdfast/client/push';
import type { Hash } from '@holdfast/protocol';
import { displayName, joinPath, toByteString } from '../byte-names.ts';
import type { ByteString } from '../byte-string.ts';
import type { FileStats } from '../entry-stats.ts';
import { type ComingEntry, DirectoryWriter } from './directory-writer.ts';
import { EntryReader, type FoundEntry, isLarge, kindOf } from './entry-reader.ts';
import type { DirectoryRow, FolderState } from './folder-state.ts';
import { FileBusyError, fingerprintOf, type TakeNode } from './hash-file.ts';
import type { IgnoreRules } from './ignore-rules.ts';
import { assertNoPart, describeOwnFolder } from './own-folders.ts';
import { GONE, type LeftOut, OwnFolderError, ScanProblems } from './scan-problem.ts';
import { SeenEntries } from './seen-entries.ts';
import { type SourceFolder, SourceTree } from './source-tree.ts';
import type { Fingerprint, SeenEntry } from './stat-pages.ts';
import { describeSpecial, readPatternTexts, Survey } from './survey.ts';

export interface ScanOptions {
  /** absolute path of a folder, file or link */
  readonly root: ByteString;
  /** The root, held open; opened here when left out. */
  readonly tree?: SourceTree | undefined;
  readonly state: FolderState;
  readonly rules: IgnoreRules;
  /** Names of pattern files that are honoured in every folder. */
  readonly ignoreFileNames: readonly string[];
  readonly recordsMtime: boolean;
  /** Sockets, pipes and devices are left out without a word. */
  readonly skipsSpecial: boolean;
  /** true: an entry that cannot be stored ends the scan; false: it is left out, and told. */
  readonly isStrict: boolean;
  /** Entries, as people see them, that are read even if they look unchanged. */
  readonly distrusted: ReadonlySet<string>;
  /** Entries, as people see them, that are left out, and why. */
  readonly excluded?: ReadonlyMap<string, string> | undefined;
  /** Takes the nodes below and of a folder as they are made, children first. */
  readonly takeNode?: TakeNode | undefined;
  /** Looks at every entry, so that what cannot be stored is told before much is read. The scan makes its own when left out. */
  readonly survey?: Survey | undefined;
  readonly progress: ProgressReporter;
  readonly signal: AbortSignal | undefined;
}

/** The root, as a directory entry without a parent. */
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
  /** in the order of the tree */
  readonly leftOut: readonly LeftOut[];
  /** Folders that Holdfast made itself: what each is. None of them is in the tree. */
  readonly passedOver: ReadonlyMap<string, string>;
}

/** How long the scan may keep the process to itself: answers to requests, and packs without a place, wait meanwhile. */
const TURN_MS = 5;

const NO_FINGERPRINT: Fingerprint = { size: 0, mtimeMs: 0, ctimeMs: 0, inode: 0 };
/** The state's name of the root, and what is above it. */
const ROOT_NAME = '';
const ABOVE_ROOT: Pick<DirectoryRow, 'id' | 'isNew'> = { id: 0, isNew: false };

/** An entry that may still be read. It is wrapped in an object, so that awaiting the visit does not await the entry. */
interface Visited {
  readonly coming: ComingEntry;
}

interface Folder {
  readonly path: ByteString;
  readonly source: SourceFolder;
  readonly row: DirectoryRow;
  readonly rules: IgnoreRules;
  readonly seen: SeenEntries;
}

/** Throws ScanError when entries cannot be stored, the reason of the signal, or what the system says of the root. */
export function scanTree(options: ScanOptions): Promise<ScannedRoot> {
  return new Scan(options).run();
}

class Scan {
  readonly #options: ScanOptions;
  readonly #state: FolderState;
  readonly #reader: EntryReader;
  readonly #tree: SourceTree;
  readonly #ownsTree: boolean;
  readonly #problems: ScanProblems;
  readonly #passedOver = new Map<string, string>();
  /** Distrusted entries that the scan has not met. */
  readonly #unmet: Set<string>;
  /** large files that are being read */
  readonly #reading = new Semaphore(2);
  #entryCount = 0;
  #bytes = 0;
  #readCount = 0;
  #item: string | undefined;
  #unsurveyedBytes = 0;
  readonly #survey: Survey;
  #turnEndsAt = performance.now() + TURN_MS;

  constructor(options: ScanOptions) {
    this.#ownsTree = options.tree === undefined;
    this.#tree = options.tree ?? new SourceTree(options.root);
    this.#options = { ...options, tree: this.#tree };
    this.#problems = new ScanProblems(options.isStrict);
    this.#unmet = new Set(options.distrusted);
    this.#survey = options.survey ?? new Survey(this.#options);
    this.#state = options.state;
    this.#reader = new EntryReader(options.state, options);
  }

  async run(): Promise<ScannedRoot> {
    this.#options.progress.phase('scan');
    try {
      const stats = this.#tree.lookAtRoot();
      const row = this.#directoryRow(ABOVE_ROOT, ROOT_NAME);
      const entry = await this.#scanRoot(stats, row);
      this.#problems.throwIfStrict();
      for (const path of this.#unmet) this.#problems.add(toByteString(path), GONE);
      const kind = kindOf(stats);
      if (entry === undefined || kind === undefined) this.#problems.throw();
      this.#report();
      const { hash, bytes, entryCount } = entry;
      return {
        ...{ kind, hash, bytes, entryCount: entryCount + 1 },
        directoryId: row.id,
        readCount: this.#readCount,
        leftOut: this.#problems.leftOut,
        passedOver: this.#passedOver,
      };
    } finally {
      await this.#reading.idle();
      if (this.#ownsTree) this.#tree.close();
      this.#state.save();
    }
  }

  async #scanRoot(
    stats: FileStats,
    row: DirectoryRow,
  ): Promise<Pick<SeenEntry, 'hash' | 'bytes' | 'entryCount'> | undefined> {
    const { rules } = this.#options;
    this.#unmet.delete(displayName(this.#options.root));
    assertNoPart(this.#options.root);
    const source = this.#tree.folder('');
    if (stats.isDirectory()) {
      this.#count(1, 0);
      return this.#scanDirectory('', row, rules, stats);
    }
    if (kindOf(stats) === undefined) return this.#refuse('', describeSpecial(stats));
    const seen = new SeenEntries(this.#state, row);
    const met = this.#meet('', ROOT_NAME, stats, { path: '', source, row, rules, seen });
    return met instanceof Promise ? (await met).coming : met;
  }

  #directoryRow({ id, isNew }: Pick<DirectoryRow, 'id' | 'isNew'>, name: ByteString): DirectoryRow {
    const known = isNew ? undefined : this.#state.findDirectory(id, name);
    return known ?? this.#state.addDirectory(id, name);
  }

  /** Undefined: it is a folder of Holdfast's own. Each begins on an empty stack: ten thousand, one in another, would not fit on one. */
  async #scanDirectory(path: ByteString, row: DirectoryRow, outerRules: IgnoreRules, stats: FileStats) {
    await undefined;
    const source = this.#tree.folder(path);
    const surveyed = this.#survey.folders.take(path, fingerprintOf(stats));
    const names = surveyed?.names ?? source.list();
    const ownKind = describeOwnFolder(names, source);
    if (ownKind !== undefined) return this.#passOver(path, ownKind);
    const patterns = readPatternTexts(source, names, this.#options.ignoreFileNames, (name) =>
      this.#warnOfLink(joinPath(path, name)),
    );
    const rules = outerRules.enter(path, patterns);
    const folder: Folder = { path, source, row, rules, seen: new SeenEntries(this.#state, row) };
    const writer = new DirectoryWriter(this.#state, row, this.#options.takeNode);
    this.#item = displayName(path === '' ? this.#options.root : path);
    let index = 0;
    for (const name of names) {
      if (performance.now() > this.#turnEndsAt) await this.#yield();
      const visited = this.#visit(name, folder, surveyed?.files[index]);
      index += 1;
      const adding = writer.add(visited instanceof Promise ? (await visited).coming : visited);
      if (adding !== undefined) await adding;
    }
    const built = await writer.finish();
    if (built.isChanged && !row.isNew) this.#state.dropMissing(row.id, (name) => names.has(name));
    this.#state.saveSometimes();
    return built;
  }

  #passOver(path: ByteString, kind: string): undefined {
    if (path === '') throw new OwnFolderError(displayName(this.#options.root), kind);
    this.#passedOver.set(displayName(path), kind);
  }

  /** A directory is scanned before this resolves; a large file may still be read afterwards. */
  #visit(
    name: ByteString,
    folder: Folder,
    surveyed: FileStats | undefined,
  ): SeenEntry | undefined | Promise<Visited> {
    const path = joinPath(folder.path, name);
    // Nothing else would show that a file which is remembered has changed since, and of a large one that is seen only at its end.
    const isSurveyed = surveyed !== undefined && folder.row.isNew && !isLarge(surveyed);
    let stats = isSurveyed ? surveyed : undefined;
    try {
      stats ??= folder.source.lookAt(name);
    } catch (error) {
      return this.#takeFailure(path, error);
    }
    const excludedFor = this.#recall(path);
    if (stats === undefined) return this.#missGone(path, folder.rules);
    if (folder.rules.isIgnored(path, stats.isDirectory())) return undefined;
    if (kindOf(stats) === undefined) return this.#meetSpecial(path, stats);
    if (excludedFor !== undefined) return this.#refuse(path, excludedFor);
    if (stats.isDirectory()) return this.#enter(path, name, folder, stats);
    return this.#meet(path, name, stats, folder, isSurveyed);
  }

  /** Why the entry is to be left out, from what earlier rounds of the push met. */
  #recall(path: ByteString): string | undefined {
    const { distrusted, excluded } = this.#options;
    if (distrusted.size === 0) return undefined;
    const shown = displayName(path);
    this.#unmet.delete(shown);
    return excluded?.get(shown);
  }

  /** Nobody knows what it was. It is told unless the patterns leave it out in any case. */
  #missGone(path: ByteString, rules: IgnoreRules): undefined {
    const isIgnored = rules.isIgnored(path, false) && rules.isIgnored(path, true);
    return isIgnored ? undefined : this.#refuse(path, GONE);
  }

  async #enter(
    path: ByteString,
    name: ByteString,
    { row, rules }: Folder,
    stats: FileStats,
  ): Promise<Visited> {
    try {
      const built = await this.#scanDirectory(path, this.#directoryRow(row, name), rules, stats);
      if (built === undefined) return { coming: undefined };
      const { hash, bytes, entryCount } = built;
      const mtimeNs = this.#reader.mtimeOf({ folder: this.#tree.folder(path), name: '' }, path);
      this.#count(1, 0);
      const coming: SeenEntry = {
        name,
        kind: 'directory',
        isExecutable: false,
        isIndexed: false,
        isSettled: true,
        fingerprint: NO_FINGERPRINT,
        hash,
        bytes,
        entryCount,
        mtimeNs,
      };
      return { coming };
    } catch (error) {
      return { coming: this.#takeFailure(path, error) };
    }
  }

  /** A file or link: known again, read at once, or (a large file) read meanwhile. */
  #meet(
    path: ByteString,
    name: ByteString,
    stats: FileStats,
    { source, row, seen }: Folder,
    isSurveyed = false,
  ): SeenEntry | undefined | Promise<Visited> {
    const found: FoundEntry = {
      path,
      name,
      source: { folder: source, name: path === '' ? this.#tree.rootName : name },
      stats,
      directory: row.id,
      isSurveyed,
    };
    const known = this.#reader.findKnown(found, seen);
    if (known === undefined) return isLarge(stats) ? this.#startReading(found) : this.#readSmall(found);
    this.#count(1, known.bytes);
    return known;
  }

  /** A promise only where the entry, or its node, has to wait. */
  #readSmall(found: FoundEntry): SeenEntry | undefined | Promise<Visited> {
    const entry = this.#read(found);
    return entry instanceof Promise ? entry.then((coming) => ({ coming })) : entry;
  }

  async #startReading(found: FoundEntry): Promise<Visited> {
    // Two larger files are read at the same time.
    const done = await this.#reading.take();
    const name = displayName(found.path === '' ? this.#options.root : found.path);
    this.#item = name;
    const endWait = this.#options.progress.waitFor(`reading ${name}`);
    const reading = (async () => this.#read(found))().finally(() => {
      endWait();
      done();
    });
    // The failure is thrown where the entry is awaited, not where the scan waits for room.
    reading.catch(() => undefined);
    return { coming: reading };
  }

  #read(found: FoundEntry): SeenEntry | undefined | Promise<SeenEntry | undefined> {
    this.#options.signal?.throwIfAborted();
    this.#unsurveyedBytes += found.stats.size;
    // A survey pays only above this size: reading it takes as long as looking at some thousands of entries.
    const isSurveyDue = this.#unsurveyedBytes > 16 * 1024 * 1024 && !this.#survey.isMade;
    if (isSurveyDue) return this.#survey.make().then(() => this.#readNow(found));
    return this.#readNow(found);
  }

  #readNow(found: FoundEntry): SeenEntry | undefined | Promise<SeenEntry | undefined> {
    let readBytes = 0;
    const take = (entry: SeenEntry): SeenEntry => {
      this.#readCount += 1;
      this.#count(1, entry.bytes - readBytes);
      return entry;
    };
    const onRead = (more: number): void => {
      this.#options.signal?.throwIfAborted();
      readBytes += more;
      this.#count(0, more);
      this.#report();
    };
    try {
      const reading = this.#reader.read(found, onRead);
      if (!(reading instanceof Promise)) return take(reading);
      return reading.then(take).catch((error: unknown) => this.#takeFailure(found.path, error));
    } catch (error) {
      return this.#takeFailure(found.path, error);
    }
  }

  /** A failure of the entry itself is a problem to tell; any other ends the scan. */
  #takeFailure(path: ByteString, error: unknown): undefined {
    this.#options.signal?.throwIfAborted();
    if (error instanceof FileBusyError) return this.#refuse(path, error.message);
    this.#problems.addError(this.#shown(path), error);
    return undefined;
  }

  #meetSpecial(path: ByteString, stats: FileStats): undefined {
    return this.#options.skipsSpecial ? undefined : this.#refuse(path, describeSpecial(stats));
  }

  /** Warn: the user expects the patterns of this linked ignore file to apply. */
  #warnOfLink(patternFile: ByteString): void {
    const what = `${displayName(patternFile)} is a link, which is not followed`;
    this.#options.progress.warn(`${what}: nothing is left out by its patterns; put a file in its place`);
  }

  #refuse(path: ByteString, reason: string): undefined {
    this.#problems.add(this.#shown(path), reason);
    return undefined;
  }

  #shown(path: ByteString): ByteString {
    return path === '' ? this.#options.root : path;
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
