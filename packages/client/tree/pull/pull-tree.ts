/** Pulls a tree: looks at the target, then writes what is missing. Each node is verified before; a file gets its name when it is whole. */

import { encodeNodeHeader } from '@holdfast/protocol';
import { checkFunction, checkMethod, checkObject, checkOptions } from '../../arguments.ts';
import { digestNode, type NodeDigest } from '../../digest.ts';
import type { CallOptions } from '../../operations.ts';
import { Semaphore } from '../../semaphore.ts';
import { CHUNK_BYTES_MAX, CHUNK_CONTENT_TYPE, type DirectoryEntry } from '../format/tree-format.ts';
import { type HeldMemory, MemoryBudget } from '../jobs/memory-budget.ts';
import { type ProgressReporter, SILENT_PROGRESS } from '../jobs/progress.ts';
import { type ChunkPlace, openFile, readChunk } from '../read/file-parts.ts';
import type { NodeSource } from '../read/node-source.ts';
import { openTree, type TreeItem } from '../read/open-tree.ts';
import { formatPath, type TreePath } from '../walk/tree-path.ts';
import { withPath } from '../walk/tree-read-error.ts';
import { type WalkedEntry, walkTree } from '../walk/walk-tree.ts';
import { type CheckedTarget, TargetCheck } from './check-target.ts';
import { measurePaths, OpenFolder } from './open-folder.ts';
import { repairEntry } from './repair-entry.ts';
import { PullSelection } from './selection.ts';
import type { FinishedFolder, MissingEntries, NewFile, PullTarget } from './target.ts';
import { TaskPool } from './task-pool.ts';
import { findUnprovenFile } from './unproven-file.ts';
import { watchTarget } from './watched-target.ts';

export interface PullOptions extends CallOptions {
  /** Only these, given by their names from the root; everything when left out or empty. */
  readonly paths?: readonly (readonly Uint8Array[])[] | undefined;
  /** Replaces files and links that are in the way; folders never. */
  readonly force?: boolean | undefined;
  /** WebCrypto, or the built-in SHA-256, when left out. */
  readonly digest?: NodeDigest | undefined;
  /** Bytes of files in memory on their way in; 8 MiB when left out, 24 MiB where many files come with one request. */
  readonly memoryBytesMax?: number | undefined;
  readonly progress?: ProgressReporter | undefined;
}

export interface PullResult {
  /** entries of the tree that the target now has, by what was to do */
  readonly files: number;
  readonly folders: number;
  readonly links: number;
  /** of files and links */
  readonly bytes: number;
  readonly writtenFiles: number;
  readonly writtenLinks: number;
  /** of files and links */
  readonly writtenBytes: number;
}

/** Files at work, and those of several chunks, which each have an open file. The source decides how many requests they send. */
const FILES_MAX = 48;

/**
 * Brings `root` into the target, which is opened when all paths asked for are known to exist. A directory's entries go into the target's folder itself; a file or link goes to `rootPath`.
 * Interrupted at any point, the same call takes it up again. Throws PullConflictError before anything is written,
 * PullTargetError, TreeReadError, CasError.
 */
export async function pullTree(
  source: NodeSource,
  root: TreeItem,
  openTarget: () => PullTarget,
  rootPath: TreePath | undefined,
  options: PullOptions = {},
): Promise<PullResult> {
  const call = { name: 'pullTree', requestOperation: 'readNodes' } as const;
  checkMethod(call, 'the source', source, 'readNode');
  checkObject(call, 'the root', root);
  checkFunction(call, 'openTarget', openTarget);
  checkOptions(call, options);
  const ending = new AbortController();
  const signal = AbortSignal.any([ending.signal, ...(options.signal === undefined ? [] : [options.signal])]);
  if (root.kind === 'directory') {
    const paths = options.paths ?? [];
    const wanted = paths.length === 0 ? root : await measurePaths(source, root, paths, signal);
    const pull = new Pull(source, openTarget(), { ...options, signal }, ending);
    return pull.runDirectory(root, wanted);
  }
  const pull = new Pull(source, openTarget(), { ...options, signal }, ending);
  if (rootPath === undefined) throw new TypeError('a file or link needs a path');
  return pull.runSingle({ ...root, name: rootPath.name }, rootPath);
}

class Pull {
  readonly #source: NodeSource;
  readonly #target: PullTarget;
  readonly #options: PullOptions;
  readonly #force: boolean;
  readonly #digest: NodeDigest;
  readonly #call: CallOptions;
  readonly #selection: PullSelection;
  readonly #progress: ProgressReporter;
  readonly #memory: MemoryBudget;
  readonly #tasks: TaskPool;
  readonly #chunked = new Semaphore(FILES_MAX);
  readonly #result = {
    ...{ files: 0, folders: 0, links: 0, bytes: 0 },
    ...{ writtenFiles: 0, writtenLinks: 0, writtenBytes: 0 },
  };

  constructor(source: NodeSource, target: PullTarget, options: PullOptions, ending: AbortController) {
    this.#source = source;
    this.#progress = options.progress ?? SILENT_PROGRESS;
    this.#target = watchTarget(target, this.#progress);
    this.#options = options;
    this.#force = options.force ?? false;
    this.#digest = options.digest ?? digestNode;
    this.#call = { signal: options.signal };
    this.#selection = new PullSelection(options.paths ?? []);
    const isInBatches = source.nodesAtOnce !== undefined;
    // One request may bring many files.
    const memoryBytesMax = (isInBatches ? 24 : 8) * 1024 * 1024;
    this.#memory = new MemoryBudget(options.memoryBytesMax ?? memoryBytesMax);
    this.#tasks = new TaskPool(source.nodesAtOnce ?? FILES_MAX, (error) => ending.abort(error));
  }

  async runDirectory(root: TreeItem, wanted: Pick<TreeItem, 'entryCount' | 'bytes'>): Promise<PullResult> {
    // The size of parts is known only after they were walked.
    const isWhole = (this.#options.paths ?? []).length === 0;
    // The root itself is an entry too, as a push counts.
    if (isWhole) this.#progress.expect({ files: root.entryCount + 1, bytes: root.bytes });
    this.#progress.phase('check');
    const checked = await this.#check(root);
    this.#target.prepare(this.#missingOf(wanted));
    this.#progress.phase('transfer');
    try {
      await this.#write(root, checked);
    } catch (error) {
      this.#tasks.fail(error);
    }
    await this.#tasks.finish();
    if (isWhole) this.#progress.count({ files: 1 });
    return this.#result;
  }

  async runSingle(entry: DirectoryEntry, path: TreePath): Promise<PullResult> {
    this.#progress.expect({ files: 1, bytes: entry.bytes });
    const check = this.#startCheck();
    this.#target.noteEntry(path);
    const walked: WalkedEntry = { type: 'entry', path, entry, ordinal: 0, isEntered: false };
    await check.look(walked);
    check.finish();
    if (check.hasContent(0)) {
      repairEntry(this.#target, walked, check);
      this.#count(entry, false);
      return this.#result;
    }
    this.#target.prepare({ entries: 1, bytes: entry.bytes });
    this.#progress.phase('transfer');
    const folder = this.#openFolder(path.parent, undefined, { stood: true, mtimeNs: undefined });
    await this.#take(walked, check, folder);
    await this.#tasks.finish();
    folder.release();
    return this.#result;
  }

  #missingOf({ entryCount, bytes }: Pick<TreeItem, 'entryCount' | 'bytes'>): MissingEntries {
    const { files, folders, links, bytes: foundBytes } = this.#result;
    const entries = Math.max(0, entryCount - files - folders - links);
    return { entries, bytes: Math.max(0, bytes - foundBytes) };
  }

  #startCheck(): TargetCheck {
    return new TargetCheck({
      source: this.#source,
      target: this.#target,
      digest: this.#digest,
      selection: this.#selection,
      force: this.#force,
      call: this.#call,
    });
  }

  /** Walks only where the target has folders already. */
  async #check(root: TreeItem): Promise<CheckedTarget> {
    const check = this.#startCheck();
    const comparing = new TaskPool(4, () => undefined);
    const enter = (path: TreePath): boolean => {
      if (this.#selection.positionOf(path) === 'outside') return false;
      const found = this.#target.find(path);
      return found?.kind === 'folder' && found.isExactName;
    };
    if (this.#target.isEmpty()) return check;
    let folder = new OpenFolder(undefined, () => true);
    for await (const step of walkTree(this.#source, root, { ...this.#call, enter })) {
      if (step.type === 'left') {
        folder.release();
        folder = folder.parent ?? folder;
        continue;
      }
      this.#target.noteEntry(step.path);
      if (this.#selection.positionOf(step.path) === 'outside') {
        // Entries that are not asked for are not looked at, so the folder is not known to be done.
        folder.hold();
        folder.release(false);
        continue;
      }
      this.#progress.item(() => formatPath(step.path));
      const { entry, ordinal, isEntered } = step;
      if (isEntered) {
        // Its own time is set when all below is written: it is never done before.
        folder = new OpenFolder(folder, () => {
          if (entry.mtimeNs !== undefined) return false;
          check.done.add(ordinal);
          this.#countFolder();
          return true;
        });
      } else folder.hold();
      const holder = folder;
      await comparing.start(async () => {
        await check.look(step);
        if (isEntered) return;
        if (check.hasContent(ordinal)) this.#count(entry, false);
        holder.release(check.done.has(ordinal));
      });
    }
    await comparing.finish();
    check.finish();
    return check;
  }

  async #write(root: TreeItem, checked: CheckedTarget): Promise<void> {
    const enter = (path: TreePath, _entry: DirectoryEntry, ordinal: number): boolean =>
      !checked.done.has(ordinal) && this.#selection.positionOf(path) !== 'outside';
    let folder = this.#openFolder(undefined, undefined, { stood: true, mtimeNs: undefined });
    for await (const step of walkTree(this.#source, root, { ...this.#call, enter })) {
      if (step.type === 'left') {
        folder.release();
        folder = folder.parent ?? folder;
        continue;
      }
      this.#target.noteEntry(step.path);
      if (this.#selection.positionOf(step.path) === 'outside') continue;
      if (step.isEntered) folder = this.#enterFolder(step, checked, folder);
      else if (step.entry.kind !== 'directory') await this.#take(step, checked, folder);
    }
  }

  #enterFolder(
    { path, entry, ordinal }: WalkedEntry,
    checked: CheckedTarget,
    parent: OpenFolder,
  ): OpenFolder {
    const stood = checked.existing.has(ordinal);
    if (!stood || this.#force) this.#target.makeFolder(path, stood);
    const isInside = this.#selection.positionOf(path) === 'inside';
    if (isInside) this.#countFolder();
    return this.#openFolder(path, parent, { stood, mtimeNs: isInside ? entry.mtimeNs : undefined });
  }

  #openFolder(
    path: TreePath | undefined,
    parent: OpenFolder | undefined,
    folder: FinishedFolder,
  ): OpenFolder {
    return new OpenFolder(parent, () => {
      this.#target.finishFolder(path, folder);
      return true;
    });
  }

  /** A file or link: done already, or begun here and finished by a task. */
  async #take(step: WalkedEntry, checked: CheckedTarget, folder: OpenFolder): Promise<void> {
    const { path, entry, ordinal } = step;
    this.#progress.item(() => formatPath(path));
    // Counted when it was looked at.
    if (checked.done.has(ordinal) || repairEntry(this.#target, step, checked)) return;
    const mayReplace = this.#force && checked.existing.has(ordinal);
    const file: NewFile = { isExecutable: entry.isExecutable, mtimeNs: entry.mtimeNs, mayReplace };
    // A file that would fit in one chunk may still have several: only its first node tells. The first node of a longer file is small.
    const firstBytes = entry.bytes <= CHUNK_BYTES_MAX ? entry.bytes : 0;
    folder.hold();
    await this.#tasks.start(async () => {
      try {
        await this.#memory.hold(firstBytes, undefined, (held) =>
          entry.kind === 'file'
            ? this.#pullFile(path, entry, { file, held })
            : this.#pullLink(path, entry, file),
        );
        this.#count(entry, true);
        folder.release();
      } catch (error) {
        throw withPath(path, error);
      }
    });
  }

  async #pullLink(path: TreePath, entry: DirectoryEntry, file: NewFile): Promise<void> {
    const linkTarget = await openTree(this.#source).readSymlink(entry, this.#call);
    this.#target.makeLink(path, linkTarget, file);
  }

  async #pullFile(
    path: TreePath,
    entry: DirectoryEntry,
    { file, held }: { readonly file: NewFile; readonly held: HeldMemory },
  ): Promise<void> {
    const unproven = await findUnprovenFile(this.#source, this.#target, entry, this.#call);
    if (unproven === undefined) return this.#pullVerified(this.#source, path, entry, { file, held });
    const writing = this.#target.writeUnproven?.(path, unproven, file);
    if (writing === undefined) return this.#pullVerified(unproven.source, path, entry, { file, held });
    unproven.release();
    held.release();
    if (await writing) return;
    // Read once more in the usual way, which knows whom to ask again, and says what is wrong.
    await this.#memory.hold(entry.bytes, held, (again) =>
      this.#pullVerified(this.#source, path, entry, { file, held: again }),
    );
  }

  async #pullVerified(
    source: NodeSource,
    path: TreePath,
    entry: DirectoryEntry,
    { file, held }: { readonly file: NewFile; readonly held: HeldMemory },
  ): Promise<void> {
    const opened = await openFile(source, entry, this.#call);
    if (opened.type === 'whole') {
      const writing = this.#target.writeFile(path, opened.content, file);
      this.#source.giveBack?.(opened.content);
      held.release();
      return writing;
    }
    // Its chunks hold memory of their own.
    held.release();
    const done = await this.#chunked.take();
    try {
      await this.#pullChunks(path, entry, opened.chunks, { file, held });
    } finally {
      done();
    }
  }

  async #pullChunks(
    path: TreePath,
    entry: DirectoryEntry,
    places: AsyncIterable<ChunkPlace>,
    { file, held }: { readonly file: NewFile; readonly held: HeldMemory },
  ): Promise<void> {
    const partial = this.#target.openPartial(path, entry.hash, file);
    const chunks = new TaskPool(12, () => undefined);
    const pullChunk = async (chunk: ChunkPlace): Promise<void> => {
      if (await this.#hasChunk(partial, chunk)) return;
      const content = await readChunk(this.#source, chunk, this.#call);
      await partial.write(chunk.offset, content);
      this.#source.giveBack?.(content);
    };
    try {
      for await (const chunk of places) {
        await chunks.start(() => this.#memory.hold(chunk.bytes, held, () => pullChunk(chunk)));
      }
      await chunks.finish();
      await partial.commit(entry.bytes);
    } catch (error) {
      // Nothing may still write when the file is given up.
      await chunks.finish().catch(() => undefined);
      partial.abandon();
      throw error;
    }
  }

  /** Whether an interrupted pull has brought this chunk. */
  async #hasChunk(
    partial: { readonly foundBytes: number; read(offset: number, length: number): Promise<Uint8Array> },
    { hash, offset, bytes }: ChunkPlace,
  ): Promise<boolean> {
    if (offset + bytes > partial.foundBytes) return false;
    const content = await partial.read(offset, bytes);
    const header = encodeNodeHeader({ contentType: CHUNK_CONTENT_TYPE, refs: [], size: content.length });
    return (await this.#digest(header, content)) === hash;
  }

  #countFolder(): void {
    this.#result.folders += 1;
    this.#progress.count({ files: 1 });
  }

  #count(entry: DirectoryEntry, isWritten: boolean): void {
    const { bytes, kind } = entry;
    const written = isWritten ? 1 : 0;
    if (kind === 'file') {
      this.#result.files += 1;
      this.#result.writtenFiles += written;
    } else {
      this.#result.links += 1;
      this.#result.writtenLinks += written;
    }
    this.#result.bytes += bytes;
    if (isWritten) this.#result.writtenBytes += bytes;
    this.#progress.count({ files: 1, bytes, deduplicatedBytes: isWritten ? 0 : bytes });
  }
}
