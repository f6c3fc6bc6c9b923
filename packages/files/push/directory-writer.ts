/**
 * Writes one directory while its entries come in order: what was seen of them, and its nodes. It holds one page of entries. As long
 * as the pages are those of last time, the writer only compares them: it builds and writes nothing. The first page that changed makes
 * it build the directory from the first entry on, and the pages before that one come from the state.
 */
import {
  type BuiltDirectory,
  DirectoryBuilder,
  type DirectoryEntry,
  type NodeSink,
  type TreeNode,
} from '@holdfast/client/push';
import { encodeNode, type Hash } from '@holdfast/protocol';
import { bytesOf } from '../byte-names.ts';
import { digestAtOnce } from '../node-digest.ts';
import type { DirectoryRow, FolderState } from './folder-state.ts';
import type { TakeNode } from './hash-file.ts';
import { PAGE_ENTRIES_MAX, packPage, type SeenEntry, unpackPage } from './stat-pages.ts';
import { TreeStateLostError } from './state-failure.ts';

/** An entry, perhaps still being hashed; undefined when it turned out not to be there. */
export type ComingEntry = SeenEntry | undefined | Promise<SeenEntry | undefined>;

const NO_CONTENT = { files: 0, bytes: 0 };

export class DirectoryWriter {
  readonly #state: FolderState;
  readonly #row: DirectoryRow;
  readonly #takeNode: TakeNode | undefined;
  readonly #emitted = new Set<Hash>();
  #builder: DirectoryBuilder | undefined;
  #coming: ComingEntry[] = [];
  #entries: SeenEntry[] = [];
  #pageCount = 0;
  /** what the entries of all pages so far come to, by which it is seen that pages were lost */
  #entryCount = 0;
  #bytes = 0;
  /** pages whose entries the builder has */
  #builtPages = 0;
  /** the first page that is not what it was */
  #changedFrom: number | undefined;

  constructor(state: FolderState, row: DirectoryRow, takeNode: TakeNode | undefined) {
    this.#state = state;
    this.#row = row;
    this.#takeNode = takeNode;
  }

  /** Await what it returns before the next call: it is a promise only where a page may be full. */
  add(entry: ComingEntry): void | Promise<void> {
    // The failure is thrown when the page is full and its entries are awaited.
    if (entry instanceof Promise) entry.catch(() => undefined);
    this.#coming.push(entry);
    if (this.#coming.length >= PAGE_ENTRIES_MAX) return this.#fill();
  }

  async #fill(): Promise<void> {
    await this.#settle();
    if (this.#entries.length >= PAGE_ENTRIES_MAX) await this.#closePage();
  }

  /** Whether anything is different from last time, and what the directory is. */
  async finish(): Promise<BuiltDirectory & { readonly isChanged: boolean }> {
    await this.#settle();
    const row = this.#row;
    if (this.#entries.length > 0) await this.#closePage();
    const { hash } = row;
    const isSame = this.#changedFrom === undefined && !row.isNew && !this.#hasPage(this.#pageCount);
    if (isSame && hash !== undefined && this.#comesTo(row)) {
      return { hash, bytes: row.bytes, entryCount: row.entryCount, isChanged: false };
    }
    await this.#buildFromState(this.#pageCount);
    const built = await this.#getBuilder().finish();
    if (isSame && built.hash === row.hash) return { ...built, isChanged: false };
    if (!row.isNew) this.#replace(row.id);
    this.#state.finishDirectory(row.id, built.hash, built.bytes, built.entryCount);
    return { ...built, isChanged: true };
  }

  /** The pages written now replace the remembered ones. */
  #replace(id: number): void {
    if (this.#changedFrom === undefined) this.#state.dropStagedPages(id);
    this.#state.replacePages(id, this.#changedFrom ?? this.#pageCount);
    this.#state.dropNodesExcept(id, '', this.#emitted);
  }

  async #settle(): Promise<void> {
    const coming = this.#coming;
    this.#coming = [];
    for (const entry of coming) {
      const settled = entry instanceof Promise ? await entry : entry;
      if (settled !== undefined) this.#entries.push(settled);
    }
  }

  async #closePage(): Promise<void> {
    this.#comparePage();
    if (this.#changedFrom !== undefined) {
      await this.#buildFromState(this.#pageCount - 1);
      await this.#build(this.#entries);
    }
    this.#entries = [];
  }

  #comparePage(): void {
    const packed = packPage(this.#entries);
    const page = this.#pageCount;
    this.#pageCount += 1;
    for (const { entryCount, bytes } of this.#entries) {
      this.#entryCount += 1 + entryCount;
      this.#bytes += bytes;
    }
    const { id, isNew } = this.#row;
    if (isNew) {
      this.#changedFrom ??= page;
      this.#state.putPage(id, page, packed);
      return;
    }
    if (this.#changedFrom === undefined) {
      const old = this.#state.findPage(id, page);
      if (old !== undefined && Buffer.compare(old, packed) === 0) return;
      this.#changedFrom = page;
      this.#state.dropStagedPages(id);
    }
    this.#state.stagePage(id, page, packed);
  }

  /** Whether the entries are as many as the directory had: pages that were lost prove nothing. */
  #comesTo({ entryCount, bytes }: DirectoryRow): boolean {
    return this.#entryCount === entryCount && this.#bytes === bytes;
  }

  #hasPage(page: number): boolean {
    return this.#state.findPage(this.#row.id, page) !== undefined;
  }

  /** Gives the builder the pages up to `end` that it has not had: all of them are as they were last time. */
  async #buildFromState(end: number): Promise<void> {
    while (this.#builtPages < end) {
      const packed = this.#state.findPage(this.#row.id, this.#builtPages);
      if (packed === undefined) throw new TreeStateLostError('damaged', 'it lacks a page that it had');
      await this.#build(unpackPage(packed));
    }
  }

  /** One page. */
  async #build(entries: readonly SeenEntry[]): Promise<void> {
    const builder = this.#getBuilder();
    for (const entry of entries) {
      const adding = builder.add(describeEntry(entry));
      if (adding !== undefined) await adding;
    }
    this.#builtPages += 1;
  }

  #getBuilder(): DirectoryBuilder {
    const sink: NodeSink = {
      digest: digestAtOnce,
      emit: (node: TreeNode) => {
        const { hash } = node;
        const canonical = encodeNode(node);
        this.#emitted.add(hash);
        this.#state.putNode(this.#row.id, '', hash, canonical);
        return this.#takeNode?.(hash, canonical, NO_CONTENT);
      },
    };
    this.#builder ??= new DirectoryBuilder(sink);
    return this.#builder;
  }
}

function describeEntry({
  name,
  kind,
  hash,
  bytes,
  entryCount,
  isExecutable,
  mtimeNs,
}: SeenEntry): DirectoryEntry {
  return { name: bytesOf(name), kind, hash, bytes, entryCount, isExecutable, mtimeNs };
}
