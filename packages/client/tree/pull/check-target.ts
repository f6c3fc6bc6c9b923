/** Looks at the target before a pull writes: which entries are done already, and which others are in the way. It writes nothing. */
import { encodeNodeHeader, type Hash } from '@holdfast/protocol';
import type { NodeDigest } from '../../digest.ts';
import type { CallOptions } from '../../operations.ts';
import {
  CHUNK_BYTES_MAX,
  CHUNK_CONTENT_TYPE,
  type DirectoryEntry,
  FILE_CONTENT_TYPE,
  SYMLINK_CONTENT_TYPE,
} from '../format/tree-format.ts';
import { openFile } from '../read/file-parts.ts';
import type { NodeSource } from '../read/node-source.ts';
import { formatPath, type TreePath } from '../walk/tree-path.ts';
import type { WalkedEntry } from '../walk/walk-tree.ts';
import type { PullSelection } from './selection.ts';
import type { FoundEntry, PullTarget } from './target.ts';

const FORCE_ADVICE = ', pull into another folder, or replace files and links by --force';

/** Names of the kinds of entries, for people. */
const KIND_NAMES: Readonly<Record<FoundEntry['kind'], string>> = {
  file: 'a file',
  folder: 'a folder',
  link: 'a link',
  other: 'a pipe, socket or device',
};
const ENTRY_NAMES: Readonly<Record<DirectoryEntry['kind'], string>> = {
  file: 'a file',
  directory: 'a folder',
  symlink: 'a link',
};

export interface Conflict {
  readonly path: TreePath;
  readonly reason: string;
  /** A file or link: with `force` it gives way. */
  readonly isReplaceable: boolean;
}

export class PullConflictError extends Error {
  override readonly name = 'PullConflictError';
  readonly conflicts: readonly Conflict[];
  readonly count: number;

  constructor(conflicts: readonly Conflict[], count: number, isForced: boolean) {
    const [first] = conflicts;
    const what = first === undefined ? '' : `${formatPath(first.path)}: ${first.reason}`;
    const others = count > 1 ? `, and ${count - 1} more` : '';
    const advice = isForced
      ? 'nothing was written; move it away: only files and links are ever replaced'
      : `nothing was written; move it away${conflicts.every(({ isReplaceable }) => isReplaceable) ? FORCE_ADVICE : ', or pull into another folder'}`;
    super(`${what}${others}; ${advice}`);
    this.conflicts = conflicts;
    this.count = count;
  }
}

export interface CheckedTarget {
  /** entries that need nothing any more */
  readonly done: OrdinalSet;
  /** entries where something stands */
  readonly existing: OrdinalSet;
  /** files with the right bytes and the wrong mode */
  readonly wrongMode: OrdinalSet;
  /** files and links with the right content and another time than that of the tree */
  readonly wrongTime: OrdinalSet;
}

export interface CheckContext {
  readonly source: NodeSource;
  readonly target: PullTarget;
  readonly digest: NodeDigest;
  readonly selection: PullSelection;
  readonly force: boolean;
  readonly call: CallOptions;
}

export class TargetCheck implements CheckedTarget {
  readonly done = new OrdinalSet();
  readonly existing = new OrdinalSet();
  readonly wrongMode = new OrdinalSet();
  readonly wrongTime = new OrdinalSet();
  readonly #context: CheckContext;
  readonly #conflicts: Conflict[] = [];
  #conflictCount = 0;

  constructor(context: CheckContext) {
    this.#context = context;
  }

  /** Throws PullConflictError when something is in the way. */
  finish(): void {
    if (this.#conflictCount === 0) return;
    throw new PullConflictError(this.#conflicts, this.#conflictCount, this.#context.force);
  }

  /** Nothing of the content is to be written. */
  hasContent(ordinal: number): boolean {
    return [this.done, this.wrongMode, this.wrongTime].some((set) => set.has(ordinal));
  }

  async look({ path, entry, ordinal }: Omit<WalkedEntry, 'type' | 'isEntered'>): Promise<void> {
    const found = this.#context.target.find(path);
    if (found === undefined) return;
    this.existing.add(ordinal);
    if (!found.isExactName) {
      const reason = `the file system takes it for another name that stands there, of ${KIND_NAMES[found.kind]}`;
      return this.#addConflict({ path, reason, isReplaceable: false });
    }
    const clash = `${KIND_NAMES[found.kind]} stands where the tree has ${ENTRY_NAMES[entry.kind]}`;
    if (entry.kind === 'directory') {
      if (found.kind === 'folder') return;
      return this.#addClash(found, { path, reason: clash });
    }
    if (found.kind === 'folder' || found.kind === 'other')
      return this.#addClash(found, { path, reason: clash });
    const isSame =
      entry.kind === 'file'
        ? await this.#isSameFile(path, entry, found)
        : await this.#isSameLink(entry, found);
    if (!isSame) {
      const isOfKind = KIND_NAMES[found.kind] === ENTRY_NAMES[entry.kind];
      return this.#addReplaceable({ path, reason: isOfKind ? `another ${found.kind} stands there` : clash });
    }
    const { mtimeNs } = entry;
    const isOfTime = mtimeNs === undefined || this.#context.target.hasTime(path, mtimeNs);
    if (!isOfTime) this.wrongTime.add(ordinal);
    if (entry.kind === 'symlink' || found.isExecutable === entry.isExecutable) {
      if (isOfTime) this.done.add(ordinal);
      return;
    }
    this.wrongMode.add(ordinal);
    const mode = entry.isExecutable
      ? 'not executable, but it is in the tree'
      : 'executable, but not in the tree';
    return this.#addReplaceable({ path, reason: `the file that stands there is ${mode}` });
  }

  /** A device, pipe or socket is somebody's, most likely the machine's own: it never gives way, and nor does a folder. */
  #addClash({ kind }: FoundEntry, conflict: Omit<Conflict, 'isReplaceable'>): void {
    if (kind === 'file' || kind === 'link') this.#addReplaceable(conflict);
    else this.#addConflict({ ...conflict, isReplaceable: false });
  }

  #addReplaceable(conflict: Omit<Conflict, 'isReplaceable'>): void {
    if (!this.#context.force) this.#addConflict({ ...conflict, isReplaceable: true });
  }

  #addConflict(conflict: Conflict): void {
    this.#conflictCount += 1;
    // All are counted; the first are named.
    if (this.#conflicts.length < 20) this.#conflicts.push(conflict);
  }

  async #isSameLink(entry: DirectoryEntry, { linkTarget }: FoundEntry): Promise<boolean> {
    if (linkTarget === undefined || linkTarget.length !== entry.bytes) return false;
    return (await this.#hash(SYMLINK_CONTENT_TYPE, linkTarget)) === entry.hash;
  }

  /** Compares sizes first, and then builds the nodes of the bytes that are there. Times prove nothing of them. */
  async #isSameFile(path: TreePath, entry: DirectoryEntry, found: FoundEntry): Promise<boolean> {
    if (found.kind !== 'file' || found.bytes !== entry.bytes) return false;
    const { source, target, call } = this.#context;
    const existing = target.openExisting(path);
    try {
      if (entry.bytes <= CHUNK_BYTES_MAX) {
        const content = await existing.read(0, entry.bytes);
        if (content.length !== entry.bytes) return false;
        if ((await this.#hash(FILE_CONTENT_TYPE, content)) === entry.hash) return true;
      }
      const opened = await openFile(source, entry, call);
      if (opened.type === 'whole') return false;
      for await (const chunk of opened.chunks) {
        const bytes = await existing.read(chunk.offset, chunk.bytes);
        if ((await this.#hash(CHUNK_CONTENT_TYPE, bytes)) !== chunk.hash) return false;
      }
      return true;
    } finally {
      existing.close();
    }
  }

  #hash(contentType: string, content: Uint8Array): Hash | Promise<Hash> {
    return this.#context.digest(encodeNodeHeader({ contentType, refs: [], size: content.length }), content);
  }
}

const PAGE_BYTES = 4096;
const PAGE_BITS = PAGE_BYTES * 8;

/** Positions of entries in a tree, however large: a bit for each, in pages made when they are needed. */
export class OrdinalSet {
  readonly #pages = new Map<number, Uint8Array>();

  add(ordinal: number): void {
    const number = Math.floor(ordinal / PAGE_BITS);
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = new Uint8Array(PAGE_BYTES);
      this.#pages.set(number, page);
    }
    const bit = ordinal % PAGE_BITS;
    page[bit >>> 3] = (page[bit >>> 3] as number) | (1 << (bit & 7));
  }

  has(ordinal: number): boolean {
    const page = this.#pages.get(Math.floor(ordinal / PAGE_BITS));
    const bit = ordinal % PAGE_BITS;
    return page !== undefined && ((page[bit >>> 3] as number) & (1 << (bit & 7))) !== 0;
  }
}
