/** A folder's state that is gone with the process: some 200 bytes for each entry of the tree, and for each 100 KB of large files. */
import type { Hash } from '@holdfast/protocol';
import type { ByteString } from '../byte-names.ts';
import {
  type DirectoryRow,
  type FolderState,
  type OWN_NODES,
  type PendingCommit,
  UNFINISHED,
} from './folder-state.ts';
import type { SeenEntry } from './stat-pages.ts';

interface Directory {
  row: DirectoryRow;
  readonly children: Map<ByteString, number>;
  pages: Uint8Array[];
  /** By page number; the first is the first that changed. */
  readonly staged: Map<number, Uint8Array>;
  readonly files: Map<ByteString, SeenEntry>;
  /** by OWN_NODES or the name of a file */
  readonly nodes: Map<ByteString, Map<Hash, Uint8Array>>;
}

export class MemoryState implements FolderState {
  readonly isReplacement = false;
  readonly #directories = new Map<number, Directory>();
  readonly #commits = new Map<string, PendingCommit>();
  #lastId = 0;

  findDirectory(parent: number, name: ByteString): DirectoryRow | undefined {
    const id = this.#directory(parent).children.get(name);
    return id === undefined ? undefined : this.#directory(id).row;
  }

  addDirectory(parent: number, name: ByteString): DirectoryRow {
    this.#lastId += 1;
    this.#directory(parent).children.set(name, this.#lastId);
    return { ...this.#directory(this.#lastId).row, isNew: true };
  }

  finishDirectory(id: number, hash: Hash, bytes: number, entryCount: number): void {
    this.#directory(id).row = { id, isNew: false, hash, bytes, entryCount };
  }

  dropMissing(directory: number, isThere: (name: ByteString) => boolean): void {
    const { children, files } = this.#directory(directory);
    for (const [name, id] of children) {
      if (isThere(name)) continue;
      children.delete(name);
      this.#dropDirectory(id);
    }
    for (const name of files.keys()) if (!isThere(name)) this.dropFile(directory, name);
  }

  #dropDirectory(id: number): void {
    for (const child of this.#directory(id).children.values()) this.#dropDirectory(child);
    this.#directories.delete(id);
  }

  findPage(directory: number, page: number): Uint8Array | undefined {
    return this.#directory(directory).pages[page];
  }

  putPage(directory: number, page: number, entries: Uint8Array): void {
    this.#directory(directory).pages[page] = entries;
  }

  stagePage(directory: number, page: number, entries: Uint8Array): void {
    this.#directory(directory).staged.set(page, entries);
  }

  replacePages(directory: number, from: number): void {
    const one = this.#directory(directory);
    one.pages = [...one.pages.slice(0, from), ...one.staged.values()];
    one.staged.clear();
  }

  dropStagedPages(directory: number): void {
    this.#directory(directory).staged.clear();
  }

  findFile(directory: number, name: ByteString): SeenEntry | undefined {
    return this.#directory(directory).files.get(name);
  }

  putFile(directory: number, entry: SeenEntry): void {
    this.#directory(directory).files.set(entry.name, entry);
  }

  dropFile(directory: number, name: ByteString): void {
    const { files, nodes } = this.#directory(directory);
    files.delete(name);
    // The root of a push that is a file has the name of the directory's own nodes, and then there is no directory.
    nodes.delete(name);
  }

  findNode(directory: number, name: ByteString | typeof OWN_NODES, hash: Hash): Uint8Array | undefined {
    return this.#directory(directory).nodes.get(name)?.get(hash);
  }

  putNode(directory: number, name: ByteString, hash: Hash, bytes: Uint8Array): void {
    const { nodes } = this.#directory(directory);
    const known = nodes.get(name);
    if (known === undefined) nodes.set(name, new Map([[hash, bytes]]));
    else known.set(hash, bytes);
  }

  dropNodesExcept(directory: number, name: ByteString, kept: ReadonlySet<Hash>): void {
    const nodes = this.#directory(directory).nodes.get(name);
    for (const hash of nodes?.keys() ?? []) if (!kept.has(hash)) nodes?.delete(hash);
  }

  findCommit(scope: string): PendingCommit | undefined {
    return this.#commits.get(scope);
  }

  keepCommit(scope: string, pending: PendingCommit): void {
    this.#commits.set(scope, pending);
  }

  dropCommit(scope: string): void {
    this.#commits.delete(scope);
  }

  forgetEntries(): void {
    for (const one of this.#directories.values()) {
      one.pages = [];
      one.staged.clear();
      one.files.clear();
    }
  }

  save(): void {
    // There is nowhere to.
  }

  saveSometimes(): void {
    // Nor from time to time.
  }

  close(): void {
    this.#directories.clear();
  }

  discard(): ReadonlyMap<string, PendingCommit> {
    const commits = new Map(this.#commits);
    this.#commits.clear();
    this.close();
    return commits;
  }

  #directory(id: number): Directory {
    let directory = this.#directories.get(id);
    if (directory === undefined) {
      const row = { id, isNew: false, ...UNFINISHED };
      directory = {
        row,
        children: new Map(),
        pages: [],
        staged: new Map(),
        files: new Map(),
        nodes: new Map(),
      };
      this.#directories.set(id, directory);
    }
    return directory;
  }
}
