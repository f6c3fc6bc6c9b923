/** A folder of this machine as the target of a pull. */
import {
  fstatSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  type Stats,
  symlinkSync,
  unlinkSync,
} from 'node:fs';
import {
  type ExistingFile,
  type FinishedFolder,
  type FoundEntry,
  type Hash,
  type MissingEntries,
  type NewFile,
  type PartialFile,
  type PullTarget,
  PullTargetError,
  type TreePath,
  type UnprovenFile,
} from '@holdfast/client/internal';
import { makeFolderIn } from '../folder-calls.ts';
import { type FolderAccess, openFolders } from './checked-folders.ts';
import { openExistingFile, setExecutable } from './existing-file.ts';
import { explain, shownPath } from './failure.ts';
import type { FileWriter } from './file-writer.ts';
import { findStat, isReplaceable, kindOf, swapCase, syncFolder } from './local-entries.ts';
import {
  type AbandonedFile,
  closeLater,
  closeQuietly,
  createPartial,
  findTakenOver,
  forgetPartialName,
  isPartialName,
  listAbandoned,
  makePartialName,
  NO_HASH,
  readRange,
  sealPartial,
  writeRange,
  writeRangeSparsely,
} from './partial-names.ts';
import { assertRoom } from './room.ts';
import { isTime, setTimes } from './set-times.ts';
import { type Placed, placeNew, type SmallFile, unlinkIfThere, writeSmallFile } from './small-file.ts';
import { pathOf, type TargetFolder } from './target-folder.ts';

export interface FolderTargetOptions {
  /** Each file and folder is on disk before the next step counts on it: slow, and safe against power loss. */
  readonly fsync?: boolean | undefined;
  /** Blocks of zeros become holes. A writer beside the pull knows no holes, so give none. */
  readonly sparse?: boolean | undefined;
  /** Instead of what the system offers, for tests. */
  readonly folders?: FolderAccess | undefined;
  /** Instead of `lstat`, for tests: a file system that folds case. */
  readonly findStat?: ((at: Buffer) => Stats | undefined) | undefined;
  /** Instead of `close`, for tests: of a file that was written in pieces. */
  readonly closeFile?: ((descriptor: number) => Promise<void>) | undefined;
  /** Makes small files beside the pull; the target closes it. Left out, the pull makes them all. */
  readonly writer?: FileWriter | undefined;
}

export interface FolderTarget extends PullTarget {
  /** Resolves when nothing more is written. */
  close(): Promise<void>;
}

/** `base` is a folder that is there. Throws what opening it throws. */
export function openFolderTarget(base: string, options: FolderTargetOptions = {}): FolderTarget {
  return new LocalTarget(base, options);
}

class LocalTarget implements FolderTarget {
  readonly #base: string;
  readonly #folders: FolderAccess;
  readonly #how: { readonly fsync: boolean; readonly isSparse: boolean };
  readonly #findStat: (at: Buffer) => Stats | undefined;
  readonly #closeFile: (descriptor: number) => Promise<void>;
  /** A test folds case by `#findStat`, which the system knows nothing of: then `#findStat` alone tells what stands under a name. */
  readonly #isFolded: boolean;
  /** Leftovers of interrupted pulls in folders that are being filled, listed once. */
  readonly #abandoned = new Map<TreePath | undefined, readonly AbandonedFile[]>();

  readonly #writer: FileWriter | undefined;
  /** Two threads may give names at once if the file system does that in one step that replaces nothing. The first file shows it. */
  #placesExclusively = false;
  /** The tree itself has entries named as what interrupted pulls leave: then nothing is taken for that. */
  #hasPartialNames = false;

  constructor(base: string, options: FolderTargetOptions) {
    this.#base = base;
    this.#writer = options.writer;
    this.#folders =
      options.folders ?? openFolders(base, (held, close) => dropLater(this.#writer, held, close));
    this.#how = { fsync: options.fsync ?? false, isSparse: options.sparse ?? false };
    this.#findStat = options.findStat ?? findStat;
    this.#isFolded = options.findStat !== undefined;
    this.#closeFile = options.closeFile ?? closeLater;
  }

  async close(): Promise<void> {
    await this.#writer?.close();
    this.#folders.close();
  }

  isEmpty(): boolean {
    return readdirSync(this.#folders.at(undefined).prefix, { encoding: 'buffer' }).length === 0;
  }

  prepare(missing: MissingEntries): void {
    // Nobody knows before how much of a sparse tree is holes.
    const bytes = this.#how.isSparse ? 0 : missing.bytes;
    assertRoom(this.#base, this.#folders.at(undefined).prefix, { ...missing, bytes });
    this.#writer?.expect(missing.entries);
  }

  noteEntry(path: TreePath): void {
    this.#hasPartialNames ||= isPartialName(path.name);
  }

  find(path: TreePath): FoundEntry | undefined {
    return this.#try(path, 'cannot be looked at', () => {
      const at = this.#locate(path);
      const stat = this.#findStat(at);
      if (stat === undefined) return undefined;
      const kind = kindOf(stat);
      if (kind === 'folder' && this.#how.fsync) syncFolder(at);
      return {
        kind,
        bytes: stat.size,
        // A push too takes a file as executable if anyone may execute it.
        isExecutable: (stat.mode & 0o111) !== 0,
        linkTarget: kind === 'link' ? readlinkSync(at, { encoding: 'buffer' }) : undefined,
        isExactName: this.#isExactName(path, stat),
      };
    });
  }

  openExisting(path: TreePath): ExistingFile {
    return this.#try(path, 'cannot be read', () => {
      const existing = openExistingFile(this.#locate(path), this.#how.fsync);
      if (existing !== undefined) return existing;
      throw new PullTargetError(`${this.#shown(path)} is not a file any more; run the same command again`);
    });
  }

  setExecutable(path: TreePath, isExecutable: boolean): void {
    this.#try(path, 'cannot get its mode', () => setExecutable(this.#locate(path), isExecutable));
    if (this.#how.fsync) this.openExisting(path).close();
  }

  hasTime(path: TreePath, mtimeNs: bigint): boolean {
    return this.#try(path, 'cannot be looked at', () =>
      isTime(lstatSync(this.#locate(path), { bigint: true }).mtimeNs, mtimeNs),
    );
  }

  setTime(path: TreePath, mtimeNs: bigint): void {
    this.#try(path, 'cannot get its time', () => setTimes(this.#locate(path), mtimeNs));
  }

  makeFolder(path: TreePath, mayReplace: boolean): void {
    this.#try(path, 'cannot be made', () => {
      const { descriptor } = this.#folders.at(path.parent);
      // It fails if something is there already.
      if (descriptor !== undefined && !this.#isFolded && makeFolderIn(descriptor, path.name)) return;
      const at = this.#locate(path);
      const stat = this.#findStat(at);
      if (stat !== undefined) {
        if (!mayReplace) throw this.#appeared(path);
        if (stat.isDirectory()) return;
        if (kindOf(stat) === 'other') throw this.#appeared(path);
        unlinkSync(at);
      }
      mkdirSync(at);
    });
  }

  makeLink(path: TreePath, target: Uint8Array, file: Omit<NewFile, 'isExecutable'>): void {
    const name = makePartialName(NO_HASH);
    this.#try(path, 'cannot be made', () => {
      const partial = this.#locateIn(path, name);
      try {
        symlinkSync(Buffer.from(target), partial);
        this.#putInPlace(name, path, file);
      } catch (error) {
        unlinkIfThere(partial);
        throw error;
      } finally {
        forgetPartialName(name);
      }
    });
  }

  writeFile(path: TreePath, content: Uint8Array, file: NewFile): void | Promise<void> {
    const whole = this.#openWhole(path, file);
    const { partialName } = whole;
    const taken =
      this.#placesExclusively && !file.mayReplace ? this.#writer?.take(whole, content) : undefined;
    if (taken !== undefined) return this.#whenTaken(path, partialName, taken).then(() => undefined);
    this.#try(path, 'cannot be written', () => {
      try {
        const placed = writeSmallFile(whole, content, (...names) => this.#place(...names, file));
        this.#notePlaced(path, placed);
      } finally {
        forgetPartialName(partialName);
      }
    });
  }

  get unprovenBytesMax(): number | undefined {
    // Larger files would fill the memory that is shared with the writer.
    return this.#writer === undefined ? undefined : 256 * 1024;
  }

  writeUnproven(path: TreePath, unproven: UnprovenFile, file: NewFile): Promise<boolean> | undefined {
    if (!this.#placesExclusively || file.mayReplace) return undefined;
    const whole = this.#openWhole(path, file);
    const { partialName } = whole;
    const taken = this.#writer?.takeUnproven(whole, unproven);
    if (taken === undefined) forgetPartialName(partialName);
    return taken && this.#whenTaken(path, partialName, taken);
  }

  /** A file that is written in one piece. Its partial name is to be forgotten afterwards. */
  #openWhole(path: TreePath, { isExecutable, mtimeNs }: NewFile): SmallFile {
    const folder = this.#try(path, 'cannot be written', () => this.#folders.at(path.parent));
    const partialName = makePartialName(NO_HASH);
    return { folder, partialName, name: path.name, isExecutable, mtimeNs, ...this.#how };
  }

  /** False when it was not what its hash says. */
  async #whenTaken(
    path: TreePath,
    partialName: string,
    taken: Promise<Placed | 'unproven'>,
  ): Promise<boolean> {
    try {
      const placed = await taken;
      if (placed === 'unproven') return false;
      this.#notePlaced(path, placed);
      return true;
    } catch (error) {
      throw explain(error, `${this.#shown(path)} cannot be written`);
    } finally {
      forgetPartialName(partialName);
    }
  }

  #notePlaced(path: TreePath, placed: Placed): void {
    if (placed === 'appeared') throw this.#appeared(path);
    this.#placesExclusively = placed === 'exclusive';
  }

  openPartial(path: TreePath, hash: Hash, file: NewFile): PartialFile {
    const { name, descriptor } = this.#try(path, 'cannot be written', () =>
      this.#takePartial(path, hash, file),
    );
    const foundBytes = fstatSync(descriptor).size;
    const write = async (offset: number, bytes: Uint8Array): Promise<void> => {
      const writePart = this.#how.isSparse && offset >= foundBytes ? writeRangeSparsely : writeRange;
      await writePart(descriptor, offset, bytes).catch((error: unknown) => {
        throw explain(error, `${this.#shown(path)} cannot be written`);
      });
    };
    let isClosed = false;
    return {
      foundBytes,
      read: (offset, length) => readRange(descriptor, offset, length),
      write,
      commit: async (bytes) => {
        this.#try(path, 'cannot be written', () =>
          sealPartial(descriptor, { bytes, fsync: this.#how.fsync }),
        );
        isClosed = true;
        // Some network file systems write only now, and tell of a failure here.
        await this.#closeFile(descriptor).catch((error: unknown) => {
          throw explain(error, `${this.#shown(path)} cannot be written`);
        });
        this.#try(path, 'cannot be written', () => this.#putInPlace(name, path, file));
        forgetPartialName(name);
      },
      abandon: () => {
        forgetPartialName(name);
        if (!isClosed) closeQuietly(descriptor);
      },
    };
  }

  finishFolder(path: TreePath | undefined, { stood, mtimeNs }: FinishedFolder): void {
    this.#abandoned.delete(path);
    this.#try(path, 'cannot be finished', () => {
      const folder = this.#folders.at(path).prefix;
      const leftovers = stood ? this.#listAbandoned(folder) : [];
      for (const { name } of leftovers) unlinkIfThere(Buffer.concat([folder, Buffer.from(name)]));
      if (mtimeNs !== undefined) setTimes(folder, mtimeNs);
      if (this.#how.fsync) syncFolder(folder);
    });
  }

  #listAbandoned(folder: Buffer): readonly AbandonedFile[] {
    return this.#hasPartialNames ? [] : listAbandoned(folder);
  }

  /** The leftover of an interrupted pull of the same file, or a new file. */
  #takePartial(path: TreePath, hash: Hash, file: NewFile): { name: string; descriptor: number } {
    const folder = this.#folders.at(path.parent).prefix;
    const name = makePartialName(hash);
    const at = Buffer.concat([folder, Buffer.from(name)]);
    const listed = this.#abandoned.get(path.parent) ?? this.#listAbandoned(folder);
    this.#abandoned.set(path.parent, listed);
    for (const abandoned of listed) {
      if (abandoned.hashStart !== hash.slice(0, abandoned.hashStart.length)) continue;
      const descriptor = findTakenOver(Buffer.concat([folder, Buffer.from(abandoned.name)]), at, file);
      if (descriptor !== undefined) return { name, descriptor };
    }
    return { name, descriptor: createPartial(at, file) };
  }

  #putInPlace(partialName: string, path: TreePath, file: Omit<NewFile, 'isExecutable'>): void {
    const folder = this.#folders.at(path.parent);
    const partial = Buffer.from(partialName);
    if (file.mtimeNs !== undefined) setTimes(pathOf(folder, partial), file.mtimeNs);
    if (this.#place(folder, partial, path.name, file) === 'appeared') throw this.#appeared(path);
  }

  /** The final name, in one step; the last look at what stands there and the rename are one turn of this process. */
  #place(
    folder: TargetFolder,
    partialName: Uint8Array,
    name: Uint8Array,
    { mayReplace }: Pick<NewFile, 'mayReplace'>,
  ): Placed {
    if (!mayReplace && !this.#isFolded) return placeNew(folder, partialName, name);
    const at = pathOf(folder, name);
    const stat = this.#findStat(at);
    if (stat !== undefined && !(mayReplace && isReplaceable(stat))) return 'appeared';
    renameSync(pathOf(folder, partialName), at);
    return 'looked';
  }

  #appeared(path: TreePath): PullTargetError {
    return new PullTargetError(
      `${this.#shown(path)} has appeared while pulling: run the same command again, and it goes on. If it says so again, this ` +
        'file system takes the name for another one of the tree (upper and lower case): pull where names differ by case, or ' +
        'leave one out by --range',
    );
  }

  /** Asked only where the file system is seen to fold case: there the name must be the one that is listed. */
  #isExactName(path: TreePath, stat: Stats): boolean {
    const name = Buffer.from(path.name);
    const swapped = swapCase(name);
    if (swapped === undefined) return true;
    const other = this.#findStat(this.#locateIn(path, swapped));
    if (other?.ino !== stat.ino || other.dev !== stat.dev) return true;
    const listed = readdirSync(this.#folders.at(path.parent).prefix, { encoding: 'buffer' });
    return listed.some((candidate) => candidate.equals(name));
  }

  #locate(path: TreePath): Buffer {
    return pathOf(this.#folders.at(path.parent), path.name);
  }

  /** Another name in the folder of `path`. */
  #locateIn(path: TreePath, name: string | Buffer): Buffer {
    return pathOf(this.#folders.at(path.parent), Buffer.from(name));
  }

  #shown(path: TreePath | undefined): string {
    return shownPath(this.#base, path);
  }

  #try<T>(path: TreePath | undefined, what: string, work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw explain(error, `${this.#shown(path)} ${what}`);
    }
  }
}

function dropLater(writer: FileWriter | undefined, descriptor: number, close: () => void): void {
  if (writer === undefined) close();
  else writer.afterTaken(descriptor, close);
}
